"""Two runs side by side in a real browser: from a run's page to the row where they part, at every width."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SCREENSHOTS, Visitor
from tests.debugger.test_compare_page import other_run
from tests.factories import send, typical_run

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_from_a_run_to_where_it_parts_from_another(visitor: Visitor, width: int, scheme: str) -> None:
    """The run's control, a run of the same task by keyboard, the differences alone, the row in its timeline."""
    send(visitor.project, typical_run("r-42"))
    send(visitor.project, other_run("alike-1", 25))
    page = visitor.open("/alpha/runs/r-42/", viewport={"width": width, "height": 860}, color_scheme=scheme)
    page.get_by_role("link", name="Compare with…").click()
    expect(page.get_by_label("A", exact=True)).to_have_value("r-42")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Two runs side by side")).to_be_visible()
    assert page.url.endswith("/alpha/compare/?a=r-42&b=alike-1")
    expect(page.get_by_role("region", name="First difference")).to_contain_text("A has a request to the model here")
    page.screenshot(path=SCREENSHOTS / f"compare-{width}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name="Differences", exact=True).click()
    expect(page.locator(".lines .same")).to_have_count(0)
    page.get_by_role("link", name="Later turns").click()
    expect(page.locator("#turn-25")).to_be_visible()
    page.get_by_role("link", name="Swap A and B").click()
    expect(page.get_by_role("region", name="First difference")).to_contain_text("B has a request to the model here")
    page.get_by_role("region", name="First difference").locator("a[data-row]").first.click()
    expect(page.locator("a.row[aria-current]")).to_have_count(1)
    assert "/alpha/runs/r-42/?event=" in page.url


def test_any_id_can_be_typed(visitor: Visitor) -> None:
    """A run that no list offers is compared by its id, from the keyboard alone."""
    send(visitor.project, typical_run("r-42"))
    send(visitor.project, other_run("alike-1"))
    page = visitor.open("/alpha/compare/?a=r-42")
    page.get_by_label("B", exact=True).fill("alike-1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Settings that differ")).to_contain_text("limits · tokens per run")
