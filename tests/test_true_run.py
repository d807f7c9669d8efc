"""One true run, end to end: Temporal, HTTP Observation, HTTP ingest, PostgreSQL, the queue's worker, the page.

Both variants of seed 001 §16.3: a failed tool, and the first successful call to an MCP server. Nothing stands in for
anything: the stack is the one `make up` starts, the MCP server is `mcp-server-git`, the tools really run.
"""

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page, expect

from contract.stages import HINT_TYPE
from debugger.demo import read_demo_tasks
from debugger.launching import start_run, wait_for_run
from tests.conftest import RunningStack

pytestmark = pytest.mark.stack

WAIT_SECONDS = 60.0


def eventually(look: Callable[[], Any]) -> Any:
    """Return what `look` gives once it is truthy; fails with its last value after WAIT_SECONDS."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"not there after {WAIT_SECONDS:.0f} s: {found!r}"
        threading.Event().wait(0.1)
    return found


@dataclass(frozen=True)
class TrueRun:
    """A finished run of a demo task on the stack, and ways to look at what it left behind."""

    stack: RunningStack
    run_id: str
    status: str

    def events(self, kind: str = "") -> list[dict[str, Any]]:
        events = self.stack.get(f"/v1/runs/{self.run_id}/events").json()["results"]
        return [event for event in events if kind in ("", event["type"])]

    def activations(self, trigger: str = "") -> list[dict[str, Any]]:
        found = self.stack.get(f"/v1/runs/{self.run_id}/activations").json()["results"]
        return [activation for activation in found if trigger in ("", activation["trigger"])]

    def transcript(self) -> list[str]:
        """The messages the kernel kept, as JSON texts, in the order the model was sent them."""
        query = "SELECT message FROM kernel.message WHERE run_id = %s ORDER BY seq"
        with psycopg.connect(self.stack.database_url) as connection:
            return [str(row[0]) for row in connection.execute(query, [self.run_id])]

    def summary(self) -> dict[str, Any]:
        return dict(self.stack.get(f"/v1/runs/{self.run_id}").json())


def run_demo(stack: RunningStack, name: str) -> TrueRun:
    """Run a demo task under a new id and wait until its chain is folded."""
    (task,) = [task for task in read_demo_tasks() if task.name == name]
    run_id = f"{name}-{uuid.uuid4().hex[:8]}"
    start_run(stack.runtime(), {**task.spec, "run_id": run_id})
    run = TrueRun(stack, run_id, wait_for_run(stack.runtime(), run_id, WAIT_SECONDS))
    eventually(lambda: run.summary().get("status") == run.status and run.summary()["n_unfolded"] == 0)
    return run


@pytest.fixture(scope="module")
def failed_tool(stack: RunningStack) -> TrueRun:
    return run_demo(stack, "release-package")


@pytest.fixture(scope="module")
def first_call(stack: RunningStack) -> TrueRun:
    return run_demo(stack, "review-history")


def check_chain(run: TrueRun, trigger: str, source_type: str) -> dict[str, Any]:
    """Follow one hint from the event that set the search off to the request that carried it; return it."""
    assert run.status == "completed"
    activation = next(one for one in run.activations(trigger) if one["n_injected"])
    candidate = next(one for one in activation["candidates"] if one["injected_at"])
    by_id = {event["event_id"]: event for event in run.events()}

    source = by_id[activation["source_event_id"]]
    assert source["type"] == source_type
    offered = by_id[candidate["hint_id"]]
    assert (offered["type"], offered["activation_id"]) == ("hint.offered", activation["activation_id"])
    assert offered["data"]["source_event_id"] == source["event_id"]
    query = by_id[f"{activation['activation_id']}:query"]
    assert query["data"]["trigger"] == trigger

    request = by_id[candidate["request_event_id"]]
    later = [event for event in run.events("model.requested") if event["seq"] > source["seq"]]
    assert request["event_id"] == min(later, key=lambda event: event["seq"])["event_id"], "the very next request"
    return {**candidate, "activation": activation, "request": request}


def check_placement(run: TrueRun, hint: dict[str, Any]) -> None:
    """The next request holds the block right after the tool reply, in the kernel's transcript and as reported."""
    place = hint["position"]
    messages = run.transcript()
    assert hint["knowledge_id"] in messages[place]
    assert HINT_TYPE in messages[place]
    assert '"role": "tool"' in messages[place - 1] or '"role":"tool"' in messages[place - 1]
    new = hint["request"]["data"]["new_messages"]
    roles = [message["role"] for message in new]
    assert roles.index("context") == len(roles) - 1
    assert roles[-2] == "tool"


def test_failed_tool_brings_the_prepared_knowledge_into_the_next_request(failed_tool: TrueRun) -> None:
    """The task alone finds nothing of it; the error does; the agent takes it and the call then works."""
    hint = check_chain(failed_tool, "tool.failed", "tool.failed")
    check_placement(failed_tool, hint)
    primed = [one for activation in failed_tool.activations("task.priming") for one in activation["candidates"]]
    assert hint["knowledge_id"] not in [one["knowledge_id"] for one in primed]
    assert "git init" in hint["proposition"]
    assert hint["used_at"] is not None
    assert hint["outcome"] == "helpful"


def test_first_mcp_call_brings_the_servers_practices_into_the_next_request(first_call: TrueRun) -> None:
    """The first successful call to a real MCP server brings its practices, once."""
    hint = check_chain(first_call, "mcp.first_call", "tool.completed")
    check_placement(first_call, hint)
    assert hint["activation"]["mcp_server"] == "git"
    assert len([one for one in first_call.activations("mcp.first_call") if not one["skip_reason"]]) == 1
    calls = [event for event in first_call.events("tool.completed") if event["mcp_server"] == "git"]
    assert len(calls) > 1, "later calls to the same server searched nothing"


def test_offered_and_injected_are_counted_apart_in_the_run_list(failed_tool: TrueRun) -> None:
    """A run in the list carries its counts."""
    runs = failed_tool.stack.get("/v1/runs").json()["results"]
    run = next(run for run in runs if run["run_id"] == failed_tool.run_id)
    assert run["n_activations"] >= 1
    assert run["n_offered"] >= run["n_injected"] >= 1
    delivered = [event for event in failed_tool.events("hint.delivery") if event["data"]["stage"] == "injected"]
    assert run["n_injected"] == len(delivered)


def test_no_event_is_there_twice_and_none_is_missing(failed_tool: TrueRun) -> None:
    """The kernel's event numbers are all there, once."""
    numbers = sorted(event["seq"] for event in failed_tool.events() if event["seq"] is not None)
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.browser
@pytest.mark.parametrize(
    ("name", "trigger", "source_type"),
    [("failed_tool", "tool.failed", "tool.failed"), ("first_call", "mcp.first_call", "tool.completed")],
)
def test_page_explains_the_hint(
    page: Page, stack: RunningStack, request: pytest.FixtureRequest, name: str, trigger: str, source_type: str
) -> None:
    """From the sign-in link: the run's timeline shows the activation, and its why panel the hint and its place."""
    run: TrueRun = request.getfixturevalue(name)
    hint = check_chain(run, trigger, source_type)
    page.goto(stack.sign_in_url())
    page.goto(f"/{stack.project}/runs/{run.run_id}/")
    page.get_by_role("link", name="Activation").filter(has_text=trigger).first.click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text(hint["knowledge_id"])
    expect(panel).to_contain_text("injected")
    expect(panel).to_contain_text(HINT_TYPE)
