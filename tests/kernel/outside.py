"""What a worker process speaks to: a model that follows a plan by the task's first word, an Observation with one hint,
an ingest. Each may be held at a gate."""

import json
import threading
from dataclasses import dataclass
from typing import Any

from tests.kernel.gates import Gates
from tests.kernel.http_server import Answer, Asked
from tests.kernel.test_activities import CANARY

FAILS = "echo x >> ran; git status"  # a command with an effect, whose failure sets off a search
LATE = "late"  # what the model says when it was held: a second reply to a request that was repeated elsewhere


@dataclass(frozen=True)
class Say:
    """One reply of the model: calls as (tool, arguments), or a text."""

    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    text: str = ""


def shell(command: str, tool: str = "shell") -> Say:
    return Say(((tool, {"command": command}),))


def waits(gate: str, mark: str = "ran") -> str:
    """A command that leaves its mark, then waits for the file `gate`."""
    return f"echo x >> {mark}; until [ -e {gate} ]; do sleep 0.05; done"


DONE = Say(text="done")


class Outside:
    """The world outside. `plans` holds the replies by the first word of the task, in order of turns; past the last the
    model is done. In a plan `{gate}` stands for a file of the run's own."""

    def __init__(self, plans: dict[str, list[Say]]) -> None:
        self.plans = plans
        self.gates = Gates()
        self.folder = ""
        self.events: list[dict[str, Any]] = []
        self.requests: dict[str, list[list[dict[str, Any]]]] = {}
        self.answered: list[str] = []
        self.hint_runs: list[str] = []
        self.refuses_events = False
        self._lock = threading.Lock()

    def answer(self, asked: Asked) -> Answer:
        if asked.path == "/v1/events":
            return self._ingest(asked.body["events"])
        if asked.path == "/v1/observations/hints/batch":
            return self._hints(asked.body["requests"])
        return self._model(asked.body["messages"])

    def _ingest(self, events: list[dict[str, Any]]) -> Answer:
        if self.refuses_events:
            return Answer(status=503, body={"code": "down"})
        for event in events:
            self.gates.pass_through(f"{event['run_id']} event {event['type']}")
        with self._lock:
            self.events += events
        return Answer(body={"accepted": len(events), "rejected": []})

    def _hints(self, requests: list[dict[str, Any]]) -> Answer:
        run_id = requests[0]["run"]
        with self._lock:
            self.hint_runs += [request["run"] for request in requests]
        self.gates.pass_through(f"{run_id} hints")
        answers = [{"activation_id": one["activation_id"], "hints": [self._hint(one)]} for one in requests]
        self.answered.append(f"{run_id} hints")
        return Answer(body={"answers": answers})

    def _hint(self, request: dict[str, Any]) -> dict[str, Any]:
        return {
            "hint_id": f"{request['activation_id']}:h1",
            "knowledge_id": "k-1",
            "revision": 1,
            "proposition": "Run `git init` first.",
            "state": "confirmed",
        }

    def _model(self, messages: list[dict[str, Any]]) -> Answer:
        word, run_id = messages[1]["content"].split()[:2]
        turn = 1 + sum(message["role"] == "assistant" for message in messages)
        with self._lock:
            self.requests.setdefault(run_id, []).append(messages)
        held = self.gates.pass_through(f"{run_id} model {turn}")
        plan = self.plans[word]
        say = plan[turn - 1] if turn <= len(plan) else DONE
        if held and not say.calls:
            say = Say(text=LATE)
        self.answered.append(f"{run_id} model {turn}")
        return Answer(body=self._completion(say, run_id, turn))

    def _completion(self, say: Say, run_id: str, turn: int) -> dict[str, Any]:
        calls = [
            {
                "id": f"c{turn}-{n}",
                "type": "function",
                "function": {"name": name, "arguments": self._filled(args, run_id)},
            }
            for n, (name, args) in enumerate(say.calls, 1)
        ]
        message = {"role": "assistant", "content": say.text, **({"tool_calls": calls} if calls else {})}
        return {"id": "x", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "message": message}]}

    def _filled(self, arguments: dict[str, Any], run_id: str) -> str:
        return json.dumps(arguments).replace("{gate}", f"{self.folder}/{run_id}.gate").replace("{run}", run_id)

    def events_of(self, run_id: str) -> list[dict[str, Any]]:
        """The events of a run by number, what was sent again taken once; sent again must mean sent the same."""
        by_id: dict[str, dict[str, Any]] = {}
        for event in list(self.events):
            if event["run_id"] == run_id:
                assert by_id.setdefault(event["event_id"], event) == event
        return sorted(by_id.values(), key=lambda event: int(event["seq"]))


CANARY_COMMAND = f"echo key {CANARY}; echo {CANARY} >&2; exit 1"
