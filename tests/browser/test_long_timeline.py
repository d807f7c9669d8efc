"""A run of many rows in a real browser: one window of rows at a time, turned by links, keys and the strip."""

from collections.abc import Callable

from playwright.sync_api import Page, expect

from bench.timeline_rows import long_run
from debugger import timeline_store
from debugger.queries.timeline import WINDOW
from tests.browser.conftest import SCREENSHOTS, Visitor
from tests.factories import send

RUN = "/alpha/runs/long/"
N_EVENTS = 1_000


def prepared(visitor: Visitor) -> str:
    """Store a run with its timeline; return the id of its last failure."""
    events = [dict(event) for event in long_run("long", N_EVENTS, 20, 400)]
    send(visitor.project, events)
    assert timeline_store.store(visitor.project.pk, "long")
    return str([event["event_id"] for event in events if event["type"] == "tool.failed"][-1])


def start_of(page: Page) -> Callable[[int], None]:
    def is_at(start: int) -> None:
        expect(page.locator("#rows")).to_have_attribute("data-from", str(start))
        assert page.locator("#rows a.row").count() <= WINDOW

    return is_at


def test_rows_are_turned_and_never_pile_up(visitor: Visitor) -> None:
    """Later and earlier rows take the place of those that are shown; the focus goes on and the address tells."""
    prepared(visitor)
    page = visitor.open(RUN)
    is_at = start_of(page)
    is_at(0)
    page.get_by_role("link", name="Later rows").first.click()
    is_at(WINDOW)
    expect(page.locator("#rows a.row").first).to_be_focused()
    expect(page.locator("#shown")).to_contain_text(f"rows {WINDOW + 1}–{2 * WINDOW} of 3")
    assert f"from={WINDOW}" in page.url
    page.keyboard.press("k")
    is_at(0)
    expect(page.locator("#rows a.row").last).to_be_focused()
    page.keyboard.press("j")
    is_at(WINDOW)


def test_the_strip_leads_into_other_windows(visitor: Visitor) -> None:
    """A click in the middle of the strip shows and focuses a row from there, though it was not in the page."""
    prepared(visitor)
    page = visitor.open(RUN)
    box = page.locator("#strip svg").bounding_box()
    assert box is not None
    page.locator("#strip").click(position={"x": box["width"] / 2, "y": box["height"] / 2})
    expect(page.locator("#rows a.row:focus")).to_have_count(1)
    place = float(page.locator("#rows a.row:focus").get_attribute("data-left") or 0)
    assert 450 < place < 600
    assert int(page.locator("#rows").get_attribute("data-from") or 0) >= WINDOW


def test_an_event_beyond_the_first_window_has_an_address(visitor: Visitor) -> None:
    """The window with its row is shown, the row is marked and its panel stands open; narrow and dark, too."""
    failed = prepared(visitor)
    page = visitor.open(f"{RUN}?event={failed}")
    expect(page.locator("#rows a.row[aria-current]")).to_be_in_viewport()
    assert int(page.locator("#rows").get_attribute("data-from") or 0) >= 2 * WINDOW
    page.screenshot(path=SCREENSHOTS / "long-run-event.png")
    narrow = visitor.open(f"{RUN}?from={WINDOW}", viewport={"width": 400, "height": 800}, color_scheme="dark")
    expect(narrow.locator("nav.pager").first).to_be_visible()
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 400
    narrow.screenshot(path=SCREENSHOTS / "long-run-narrow.png")


def test_a_filter_counts_beside_all(visitor: Visitor) -> None:
    """Failed rows alone: all of them in one window, counted beside those of the run."""
    prepared(visitor)
    page = visitor.open(RUN)
    page.locator("label.chip", has_text="Tools").click()
    expect(page.locator("#shown")).to_contain_text("in all")
    is_at = start_of(page)
    is_at(0)
    page.get_by_role("link", name="Later rows").last.click()
    is_at(WINDOW)
    assert "show=tools" in page.url


def test_a_run_in_progress_grows_beyond_its_first_window(visitor: Visitor) -> None:
    """What no longer fits is behind a link that comes without a reload; the last window goes on with the run."""
    events = [dict(event) for event in long_run("long", N_EVENTS, 20, 400)]
    send(visitor.project, events[:100])
    page = visitor.open(RUN)
    expect(page.locator("nav.pager")).to_have_count(0)
    send(visitor.project, events[100:400])
    expect(page.locator("nav.pager")).to_have_count(2, timeout=20_000)
    assert page.locator("#rows a.row").count() <= WINDOW
    page.get_by_role("link", name="Last rows").first.click()
    expect(page.locator("#rows")).to_have_attribute("data-from", str(2 * WINDOW))
    before = page.locator("#rows a.row").count()
    send(visitor.project, events[400:430])
    expect(page.locator("#rows a.row").nth(before)).to_be_visible(timeout=20_000)
