"""A run made of foreign spans in a real browser: nested rows, panels, an orphan re-homed live, a narrow screen."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SCREENSHOTS, Visitor
from tests.factories import send
from tests.knowledge.spans import TRACE, agent_run, span
from tests.knowledge.test_foreign_runs import chain_of

pytestmark = pytest.mark.browser

RUN = f"/alpha/runs/{TRACE}/"


def test_a_foreign_run_is_read_by_mouse(visitor: Visitor) -> None:
    """From the list to the search and, by the link of what is inferred, to the call that failed before it."""
    send(visitor.project, agent_run())
    page = visitor.open("/alpha/runs/")
    page.get_by_role("link", name="Release it").click()
    expect(page.locator("a.row")).to_have_count(6)
    expect(page.locator("li.turn")).to_have_count(0)
    indents = page.locator("a.row .n").evaluate_all("all => all.map(one => getComputedStyle(one).paddingLeft)")
    assert indents == ["0px", *["14px"] * 5]
    page.locator("a.row", has_text="agent.search").click()
    panel = page.locator("aside#panel")
    expect(panel).to_contain_text("The application searched and found 3 documents.")
    expect(panel).to_contain_text("Nobody reported that it set the search off.")
    panel.get_by_role("link", name=f"{3:016x}").click()
    expect(panel).to_contain_text("fatal: not a git repository")
    page.screenshot(path=SCREENSHOTS / "foreign.png")


def test_case_21_an_orphan_moves_under_its_parent_on_the_open_page(visitor: Visitor) -> None:
    """The page follows the run: rows at the top with a mark, then, without a reload, inside the root that came."""
    root, *children = agent_run()
    send(visitor.project, children)
    page = visitor.open(RUN)
    expect(page.locator(".mark", has_text="its parent has not arrived")).to_have_count(5)
    send(visitor.project, [root])
    expect(page.locator("a.row")).to_have_count(6, timeout=10_000)
    expect(page.locator("li.level-1")).to_have_count(5)
    expect(page.locator(".mark")).to_have_count(0)
    expect(page.locator("#run-head")).to_contain_text("completed")


def test_case_17_a_chain_of_1500_spans_opens_with_its_indent_capped(visitor: Visitor) -> None:
    """Deep rows keep the last indent and say their level; nothing is wider than a narrow screen."""
    send(visitor.project, chain_of(1_500)[:1_000])
    send(visitor.project, chain_of(1_500)[1_000:])
    page = visitor.open(RUN, viewport={"width": 400, "height": 800}, color_scheme="dark")
    expect(page.locator("a.row")).to_have_count(50)
    expect(page.locator(".depth").last).to_have_text("level 49")
    expect(page.locator("#shown")).to_contain_text("rows 1–50 of 1,500")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.screenshot(path=SCREENSHOTS / "foreign-deep-narrow.png")


def test_case_36_what_is_wrong_is_a_banner(visitor: Visitor) -> None:
    """A circle, a clock and a missing parent are said above the rows, which are all there."""
    odd = [span(2, parent=3, start=1), span(3, parent=2, start=2), span(4, parent=1, start=-90_000), span(5, parent=77)]
    send(visitor.project, [span(1, "agent", ms=1000), *odd])
    page = visitor.open(RUN)
    expect(page.locator(".notice.warn")).to_have_count(3)
    expect(page.locator("a.row")).to_have_count(5)
