"""Answering a waiting run in a real browser: by mouse and keyboard, while the page follows the run."""

import asyncio
import re
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from debugger.demo import read_demo_tasks
from debugger.embedded.sockets import free_port
from debugger.launching import start_run, wait_for_run
from kernel.messages import RunSpec, Switches
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.browser.accessibility import wrong_with
from tests.browser.conftest import SCREENSHOTS, Visitor
from tests.conftest import RunningStack
from tests.factories import Recorder, send, typical_run
from tests.kernel_worker import SECONDS, KernelWorker, aside, kernel_worker

pytestmark = pytest.mark.browser

SPEC = RunSpec(run_id="drive", task="Release the parser package", switches=Switches(off=("task.priming",)))
DEPLOY = replace(SPEC, approval_tools=("deploy",))
ASKING = replace(SPEC, tools=("ask_human",), approval_tools=("deploy",))


@pytest.fixture
def kernel(temporal_address: str, settings: Any) -> Iterator[KernelWorker]:
    """A worker whose runs can call `deploy`; the pages know its Temporal."""
    settings.TEMPORAL_ADDRESS = temporal_address
    edges = MemoryEdges(ScriptedModel(), {"deploy": lambda **arguments: "deployed"}, now_ns=time.time_ns())
    with kernel_worker(temporal_address, edges) as worker:
        yield worker


def waiting_run(visitor: Visitor, kernel: KernelWorker, spec: RunSpec, n: int = 1) -> str:
    """Start a run that waits for `n` answers, bring it to the journal and return its id."""
    run_id = kernel.start(spec, "alpha")
    asks = kernel.await_asks(run_id, "alpha", n)
    kernel.report(visitor.project, run_id, "run.started")
    to = Recorder(run_id, datetime.now(UTC))
    for ask in asks:
        kind = "approval.requested" if ask.kind == "approval" else "human.asked"
        to.foreign(f"{run_id}:{ask.call_id}", kind, {"question": ask.text}, call_id=ask.call_id, tool=ask.tool, turn=1)
    send(visitor.project, to.events)
    return run_id


def panel_of(page: Page) -> Any:
    return page.locator("#waiting")


def test_a_call_is_approved_by_mouse(visitor: Visitor, kernel: KernelWorker) -> None:
    """The panel appears by itself; Approve is told in its place and in focus; with the run it comes to its end."""
    kernel.replies([call("deploy", target="prod")], "done")
    run_id = waiting_run(visitor, kernel, DEPLOY)
    page = visitor.open(f"/alpha/runs/{run_id}/")
    panel = panel_of(page)
    expect(panel).to_contain_text("Waiting for you")
    expect(panel).to_contain_text('{"target": "prod"}')
    panel.get_by_label("Note for deploy").fill("go on")
    panel.get_by_role("button", name="Approve").click()
    expect(page.locator("#asks li:focus")).to_contain_text("You approved it")
    expect(panel).to_contain_text("The run has ended", timeout=10_000)
    expect(panel.get_by_role("button")).to_have_count(0)
    assert kernel.edges.data_of("approval.decided") == [{"approved": True, "by": "alice", "note": "go on"}]
    kernel.report(visitor.project, run_id, "run.completed")
    expect(page.locator("#rows")).to_contain_text("approved by alice", timeout=10_000)


def test_what_is_being_written_stays(visitor: Visitor, kernel: KernelWorker) -> None:
    """While one question is answered, by this person or another, the words written for the other are not touched."""
    kernel.replies([call("ask_human", f"q{n}", question=f"Question {n}?") for n in (1, 2, 3)], "done")
    run_id = waiting_run(visitor, kernel, ASKING, 3)
    page, other = visitor.open(f"/alpha/runs/{run_id}/"), visitor.open(f"/alpha/runs/{run_id}/")
    answers = panel_of(page).get_by_label("Answer")
    expect(answers).to_have_count(3)
    answers.nth(2).fill("the third, half writ")
    answers.nth(1).fill("too slow")
    answers.nth(2).focus()
    expect(panel_of(other).get_by_label("Answer")).to_have_count(3)
    panel_of(other).get_by_label("Answer").nth(1).fill("the second")
    panel_of(other).get_by_role("button", name="Send answer").nth(1).click()
    expect(panel_of(other)).to_contain_text("You answered")
    expect(panel_of(page)).to_contain_text("It waits no more", timeout=10_000)
    expect(page.locator("#waiting-title")).to_have_text(re.compile("Waiting for you 2"))
    expect(answers).to_have_count(2)
    expect(answers.nth(1)).to_be_focused()
    expect(answers.nth(1)).to_have_value("the third, half writ")
    answers.nth(1).fill("n" * 4_097)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    said = panel_of(page).get_by_role("alert").filter(has_text="Shorten it by 1.")
    expect(said).to_be_visible()
    expect(answers.nth(1)).to_have_value("n" * 4_097)
    answers.nth(1).fill("the third")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    answers.nth(0).fill("the first")
    panel_of(page).get_by_role("button", name="Send answer").first.click()
    assert kernel.await_end(run_id) == "completed"
    replies = " ".join(message.text for message in kernel.edges.model.requests[-1])
    assert all(words in replies for words in ("the first", "the second", "the third"))
    assert "half writ" not in replies


def test_a_run_is_cancelled_by_keyboard(visitor: Visitor, kernel: KernelWorker) -> None:
    """Opening the sheet asks, its button confirms; Escape in a field only leaves the field."""
    kernel.replies([call("deploy", target="prod")], "done")
    run_id = waiting_run(visitor, kernel, DEPLOY)
    page = visitor.open(f"/alpha/runs/{run_id}/")
    page.locator("#ask-cancel summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    page.keyboard.type("wrong j k /? target")
    expect(page.get_by_label("Reason")).to_have_value("wrong j k /? target")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(panel_of(page)).to_contain_text("You cancelled the run")
    assert kernel.await_end(run_id) == "cancelled"
    expect(panel_of(page)).to_contain_text("The run has ended", timeout=10_000)


def test_a_run_that_waits_for_nobody_can_be_cancelled(visitor: Visitor, kernel: KernelWorker) -> None:
    """A run at work has one quiet line; what comes up later appears in it by itself."""
    released = threading.Event()
    kernel.edges.tools["build"] = lambda: asyncio.to_thread(released.wait, 20)
    kernel.replies([call("build"), call("deploy", target="prod")], "done")
    run_id = kernel.start(DEPLOY, "alpha")
    kernel.report(visitor.project, run_id, "run.started")
    page = visitor.open(f"/alpha/runs/{run_id}/")
    expect(panel_of(page)).to_contain_text("Nothing waits for you")
    expect(page.locator("#ask-cancel")).to_be_visible()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "waiting-nothing.png")
    released.set()
    expect(panel_of(page).get_by_role("button", name="Deny")).to_be_visible(timeout=10_000)
    panel_of(page).get_by_label("Note for deploy").fill("no, and my key is password=hunter2hunter2")
    panel_of(page).get_by_role("button", name="Deny").click()
    expect(panel_of(page)).to_contain_text("1 secret was removed from your text")
    page.screenshot(path=SCREENSHOTS / "waiting-denied.png")
    assert kernel.await_end(run_id) == "completed"
    [decided] = kernel.edges.data_of("approval.decided")
    assert "hunter2" not in str(decided)


def test_a_page_without_temporal_works_and_says_so(visitor: Visitor, settings: Any) -> None:
    """The timeline is there and is followed; the panel says what is not known, and asks again."""
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"
    send(visitor.project, typical_run("r-1", datetime.now(UTC), ended=False)[:13])
    page = visitor.open("/alpha/runs/r-1/")
    expect(page.locator("#rows")).to_contain_text("Activation")
    expect(panel_of(page)).to_contain_text("does not answer")
    page.screenshot(path=SCREENSHOTS / "waiting-away.png")
    send(visitor.project, typical_run("r-1", datetime.now(UTC), ended=False)[13:])
    expect(page.locator("#rows")).to_contain_text("git init", timeout=10_000)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_panel_fits(visitor: Visitor, kernel: KernelWorker, theme: Any, width: int) -> None:
    """Everything stands within the page, in both themes; the pictures are kept."""
    command = "git push --force origin main && rm -rf build && " + "make release VERSION=1.0.0 " * 8
    question = "Which of the two branches holds what is to be released?\nBoth have a commit called “release 1.0”."
    kernel.replies([call("ask_human", "q1", question=question), call("deploy", "d1", command=command)], "done")
    run_id = waiting_run(visitor, kernel, ASKING, 2)
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": theme}
    page = visitor.open(f"/alpha/runs/{run_id}/", **options)
    expect(panel_of(page).get_by_role("button", name="Approve")).to_be_visible()
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"waiting-{width}-{theme}.png", full_page=True)
    panel_of(page).get_by_label("Note for deploy").fill("n" * 1_001)
    panel_of(page).get_by_role("button", name="Deny").click()
    expect(panel_of(page)).to_contain_text("Shorten it by 1.")
    page.locator("#ask-cancel summary").click()
    assert wrong_with(page) == []
    page.screenshot(path=SCREENSHOTS / f"waiting-error-{width}-{theme}.png", full_page=True)
    page.locator("#waiting-title").click()
    expect(page.get_by_label("Reason")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_run_of_the_whole_stack_is_approved_call_by_call(page: Page, stack: RunningStack) -> None:
    """Started as the demo starts runs, executed by the kernel's own worker, answered by the demo person."""
    run_id = f"approved-{uuid.uuid4().hex[:8]}"
    [release] = [task for task in read_demo_tasks() if task.name == "release-package"]
    spec = {**release.spec, "run_id": run_id, "approval_tools": ["shell"]}
    aside(lambda: start_run(stack.runtime(), spec, stack.project))
    deadline = time.monotonic() + SECONDS
    while stack.get(f"/v1/runs/{run_id}").status_code != 200:
        assert time.monotonic() < deadline, "the run did not report"
        time.sleep(0.1)
    page.goto(stack.sign_in_url())
    page.goto(f"/{stack.project}/runs/{run_id}/")
    over = panel_of(page).get_by_text("The run has ended")
    approve = panel_of(page).get_by_role("button", name="Approve")
    n_approved = 0
    while not over.is_visible():
        expect(over.or_(approve).first).to_be_visible(timeout=20_000)
        if approve.is_visible():
            approve.click()
            n_approved += 1
            expect(panel_of(page).get_by_text("You approved it")).to_have_count(n_approved)
        assert n_approved < 20
    assert aside(lambda: wait_for_run(stack.runtime(), run_id, 20)) == "completed"
    while stack.get(f"/v1/runs/{run_id}").json()["status"] == "running":
        assert time.monotonic() < deadline + 60, "the run did not report its end"
        time.sleep(0.1)
    events = stack.get(f"/v1/runs/{run_id}/events", limit=500).json()["results"]
    decided = [event["data"] for event in events if event["type"] == "approval.decided"]
    assert n_approved >= 2
    assert decided == [{"approved": True, "by": "demo"}] * n_approved
