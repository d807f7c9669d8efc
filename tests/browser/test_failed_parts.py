"""Parts of a page that fail: the reason stands in their place and they are asked for again; what was there stays."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.accessibility import wrong_with
from tests.browser.conftest import Visitor
from tests.factories import send, typical_run

pytestmark = pytest.mark.browser


def refuse(page: Page, path: str, status: int, text: str = "") -> None:
    """Let the next requests of `path` fail, as a proxy or a server in trouble does."""

    def answer(route: Route) -> None:
        if status:
            route.fulfill(status=status, body=text, headers={"Content-Type": "text/plain" if text else "text/html"})
        else:
            route.abort("connectionrefused")

    page.route(path, answer)


def only_of_the_network(visitor: Visitor) -> None:
    """Take the browser's own words on failed requests from the complaints; everything else stays one."""
    words = ("Failed to load resource", "Response Status Error Code", "htmx:sendError", "htmx:afterRequest")
    visitor.complaints = [told for told in visitor.complaints if not any(word in told for word in words)]


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (503, "the database does not answer"),
        (404, "it is not there, or no longer"),
        (0, "the server does not answer"),
    ],
)
def test_a_panel_that_fails_says_so_in_its_place(visitor: Visitor, status: int, cause: str) -> None:
    """The panel keeps what it showed, the reason above it; trying again brings what was asked for."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/r-42/")
    refuse(page, "**/activations/**", status)
    page.get_by_role("link", name="Activation").filter(has_text="tool.failed").first.click()
    told = page.locator("aside#panel").get_by_role("alert")
    expect(told).to_contain_text(f"This could not be loaded: {cause}")
    expect(page.locator("aside#panel")).to_contain_text("This run")
    assert wrong_with(page) == []
    told.get_by_role("button", name="Try again").click()
    expect(told).to_have_count(1)
    page.unroute("**/activations/**")
    told.get_by_role("button", name="Try again").click()
    expect(page.locator("#why")).to_contain_text("k-17")
    expect(told).to_have_count(0)
    expect(page.locator("aside#panel")).not_to_have_attribute("aria-busy", "true")
    only_of_the_network(visitor)


def test_a_filter_that_fails_is_asked_again_with_its_words(visitor: Visitor) -> None:
    """The server's own words stand above the table; the form's fields are sent once, not twice."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/")
    refuse(page, "**/alpha/runs/?text=*", 400, "text must not hold a NUL")
    page.get_by_label("Text in the task").fill("nothing-has-this")
    told = page.locator("#runs").get_by_role("alert")
    expect(told).to_contain_text("text must not hold a NUL")
    expect(page.locator("tr[data-key]")).to_have_count(1)
    page.unroute("**/alpha/runs/?text=*")
    told.get_by_role("button", name="Try again").click()
    expect(page.locator("#runs")).to_contain_text("No run matches")
    assert page.url.endswith("/alpha/runs/?text=nothing-has-this")
    only_of_the_network(visitor)


def test_a_page_that_follows_says_since_when_it_has_heard_nothing(visitor: Visitor) -> None:
    """A bar tells what the page is as of and goes with the next answer; no row moves for it."""
    recent = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=2)
    send(visitor.project, typical_run("r-42", recent, ended=False)[:13])
    page = visitor.open("/alpha/runs/r-42/")
    expect(page.locator("#waiting-title")).to_be_visible(timeout=60_000)
    place = page.locator("#rows").bounding_box()
    refuse(page, "**/runs/r-42/**", 0)
    told = page.locator(".stalled")
    expect(told).to_contain_text("the server does not answer. It is asked again by itself.", timeout=60_000)
    expect(told).to_contain_text("As of ")
    assert page.locator("#rows").bounding_box() == place
    assert wrong_with(page) == []
    page.unroute("**/runs/r-42/**")
    expect(told).to_have_count(0, timeout=60_000)
    only_of_the_network(visitor)


def test_the_menu_of_a_narrow_screen_shows_where_one_is(visitor: Visitor) -> None:
    """The entry of the last page is within the bar, though the bar is narrower than its entries."""
    page = visitor.open("/alpha/operations/", viewport={"width": 400, "height": 800})
    entry, bar = page.locator(".top nav [aria-current]").bounding_box(), page.locator(".top nav").bounding_box()
    assert entry is not None and bar is not None
    assert bar["x"] <= entry["x"] and entry["x"] + entry["width"] <= bar["x"] + bar["width"]
