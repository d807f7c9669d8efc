"""A driver without a model: rules from a file, applied to nothing but the request it is sent.

It keeps no memory between requests, so what it does shows what stood in them: a rule that takes a command out of
a hint can only work when the hint was injected. Used by the demo and the tests.

A script is `{"rules": [{"if": {…}, "text": "…", "call": [{"tool": "…", "arguments": {…}}]}, {"if": {…},
"answer": "…"}]}`; the first rule whose conditions all hold is followed. Conditions are regular expressions:
`last` in the replies to the last calls, `told` and `no_told` in what came after these without being asked for (the
end of a background operation; hints aside), `replied` in the replies to all calls so far, `hint` and `no_hint` in the
hint blocks, `called` and `not_called` in the arguments of all calls so far (of these the latest first), `start` (true)
before the first call. Named groups fill `<<name>>` in what the rule says.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from contract.stages import HINT_TYPE
from kernel.drivers import DriverReply, ModelRequest
from kernel.drivers.escalation import recognised
from kernel.drivers.rendering import render_openai
from kernel.edge.retry import ModelError
from kernel.messages import ToolCall

DEMOS: Final = Path(__file__).parent.parent / "demos"
MEMBERS: Final = "members"  # the folder beside the demos with the scripts of those they delegate to
BLOCK: Final = re.compile(rf"<{re.escape(HINT_TYPE)}[ >].*?</{re.escape(HINT_TYPE)}>", re.DOTALL)
PLACE: Final = re.compile(r"<<(\w+)>>")
NEGATED: Final = {"no_told": "told", "no_hint": "hint", "not_called": "called"}
CONDITIONS: Final = frozenset({"start", "last", "told", "replied", "hint", "called", *NEGATED})
SCRIPT_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,80}")


class ScriptedDriver:
    """Follows the scripts of one folder: `<script>.json` in it or in its folder `members`, key `script`."""

    def __init__(self, folder: Path = DEMOS) -> None:
        self._folder = folder

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Follow the first rule that fits. Raises ModelError for a bad script or when no rule fits."""
        return recognised(follow(self._rules(request.script), render_openai(request.messages)), request.tools)

    async def end_run(self, run_id: str) -> None:
        """Nothing is held for a run."""

    async def close(self) -> None:
        """Nothing is held open."""

    def _rules(self, script: str) -> Sequence[Mapping[str, Any]]:
        if not SCRIPT_NAME.fullmatch(script):
            raise ModelError("script_invalid", "the script's name must be 1 to 80 letters, digits, _ or -")
        own, member = self._folder / f"{script}.json", self._folder / MEMBERS / f"{script}.json"
        try:
            rules = json.loads((own if own.exists() else member).read_text())["script"]["rules"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError("script_invalid", f"script {script} cannot be read: {error!r}") from None
        if not isinstance(rules, list):
            raise ModelError("script_invalid", f"script {script}: rules must be a list")
        return rules


def follow(rules: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> DriverReply:
    """Return what the first fitting rule says to `messages` (OpenAI chat form). Raises ModelError when none fits."""
    seen = _Seen(messages)
    for number, rule in enumerate(rules, 1):
        try:
            found = seen.holds(rule.get("if", {}))
            if found is not None:
                return _say(rule, found, len(messages))
        except (KeyError, TypeError, AttributeError, re.error) as error:
            raise ModelError("script_invalid", f"rule {number}: {error!r}") from None
    raise ModelError("script_ended", "no rule of the script fits this request")


class _Seen:
    """What a request shows, in the order it stands there."""

    def __init__(self, messages: Sequence[Mapping[str, Any]]) -> None:
        self.hints: list[str] = []
        self.calls: list[str] = []
        self.replies: list[str] = []
        last: list[str] = []
        told: list[str] = []
        for message in messages:
            if message["role"] == "assistant":
                last, told = [], []
                self.calls += [call["function"]["arguments"] for call in message.get("tool_calls", ())]
            elif message["role"] == "tool":
                last.append(message["content"])
                self.replies.append(message["content"])
            elif message["role"] == "user":
                self.hints += BLOCK.findall(message["content"])
                told.append(BLOCK.sub("", message["content"]))
        self.last = "\n".join(last)
        self.told = "\n".join(told)

    def holds(self, conditions: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the named groups of the conditions when all hold, else None. Raises KeyError for an unknown one."""
        found: dict[str, str] = {}
        for name, wanted in conditions.items():
            if name not in CONDITIONS:
                raise KeyError(f"unknown condition {name}")
            if name == "start":
                holds = wanted is (not self.calls)
            elif name in NEGATED:
                holds = not any(re.search(wanted, text) for text in self._texts(NEGATED[name]))
            else:
                match = next((m for text in self._texts(name) if (m := re.search(wanted, text))), None)
                holds = match is not None
                found |= {key: value or "" for key, value in match.groupdict().items()} if match else {}
            if not holds:
                return None
        return found

    def _texts(self, name: str) -> Iterator[str]:
        texts = {
            "last": [self.last],
            "told": [self.told],
            "replied": self.replies,
            "hint": self.hints,
            "called": self.calls,
        }[name]
        return reversed(texts)


def _say(rule: Mapping[str, Any], found: Mapping[str, str], n_messages: int) -> DriverReply:
    if "answer" in rule:
        return DriverReply(text=_fill(rule["answer"], found), model="scripted")
    calls = tuple(
        ToolCall(f"call-{n_messages}-{number}", call["tool"], json.dumps(_fill(call["arguments"], found)))
        for number, call in enumerate(rule["call"], 1)
    )
    return DriverReply(_fill(rule.get("text", ""), found), calls, "scripted")


def _fill(value: Any, found: Mapping[str, str]) -> Any:
    """Return `value` with every `<<name>>` in its texts replaced. Raises KeyError for a name not found."""
    if isinstance(value, str):
        return PLACE.sub(lambda match: found[match[1]], value)
    if isinstance(value, list):
        return [_fill(inner, found) for inner in value]
    if isinstance(value, dict):
        return {name: _fill(inner, found) for name, inner in value.items()}
    return value
