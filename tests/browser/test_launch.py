"""Starting a run in a real browser: from the run list to its end, and again with other settings to the comparison."""

import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from kernel.testing import MemoryEdges, ScriptedModel
from tests.browser.conftest import Visitor
from tests.kernel_worker import KernelWorker, kernel_worker

pytestmark = pytest.mark.browser

STARTED = re.compile(r"/runs/(release-package-\d{8}-\d{6}-[0-9a-f]{8})/started/")


@pytest.fixture
def kernel(temporal_address: str, settings: Any) -> Iterator[KernelWorker]:
    """A worker that executes what the pages start."""
    edges = MemoryEdges(ScriptedModel("The parser is released.", "Released again."), {}, now_ns=time.time_ns())
    with kernel_worker(temporal_address, edges) as worker:
        settings.TEMPORAL_ADDRESS = temporal_address
        settings.TEMPORAL_TASK_QUEUE = worker.runtime.task_queue
        yield worker


def started(page: Page) -> str:
    """Return the id of the run whose first event the page waits for."""
    expect(page).to_have_url(STARTED)
    expect(page.locator("#started")).to_contain_text("It has reported no event yet")
    return STARTED.search(page.url)[1]  # type: ignore[index]


def test_a_scenario_is_started_watched_and_run_again(visitor: Visitor, kernel: KernelWorker) -> None:
    """By mouse and keyboard: the page waits, becomes the timeline by itself and follows the run to its end; again
    without activation, and the comparison of the two is a link."""
    page = visitor.open("/alpha/runs/")
    page.get_by_role("link", name="Start a run").click()
    page.get_by_role("link", name="release-package").click()
    page.get_by_label("Tool rounds").fill("5")
    page.get_by_label("Name").focus()
    page.keyboard.press("Enter")
    old = started(page)
    kernel.report(visitor.project, old, "run.completed")
    expect(page).to_have_url(re.compile(f"/alpha/runs/{old}/$"), timeout=10_000)
    expect(page.locator("#run-head")).to_contain_text("completed")
    expect(page.locator("#rows")).to_contain_text("The parser is released.")

    page.get_by_role("link", name="Run again…").click()
    expect(page.get_by_label("Tool rounds")).to_have_value("5")
    page.get_by_role("checkbox", name="activation").uncheck()
    page.get_by_role("button", name="Run again").click()
    new = started(page)
    assert new != old
    kernel.report(visitor.project, new, "run.completed")
    expect(page).to_have_url(re.compile(f"/alpha/runs/{new}/\\?again={old}$"), timeout=10_000)
    expect(page.locator("#rows")).to_contain_text("Released again.")
    reported = [event["data"] for event in kernel.edges.wire if event["type"] == "run.started"]
    assert [data["switches"]["activation"] for data in reported] == [True, False]
    assert [data["limits"]["max_turns"] for data in reported] == [5, 5]
    page.get_by_role("link", name="Compare the two").click()
    expect(page).to_have_url(re.compile(f"/alpha/compare/\\?a={old}&b={new}"))
