"""A run of many rows in a real browser: one window of rows at a time, turned by links, keys and the strip."""

import re
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
    """The links put later and earlier rows in the place of those shown; the focus goes on and the address tells."""
    prepared(visitor)
    page = visitor.open(RUN)
    is_at = start_of(page)
    is_at(0)
    page.get_by_role("link", name="Later rows").first.click()
    is_at(WINDOW)
    expect(page.locator("#rows a.row").first).to_be_focused()
    expect(page.locator("#shown")).to_contain_text(f"rows {WINDOW + 1}–{2 * WINDOW} of 3")
    assert f"from={WINDOW}" in page.url
    page.get_by_role("link", name="Earlier rows").first.click()
    is_at(0)
    expect(page.locator("#rows a.row").last).to_be_focused()


def tops(page: Page) -> dict[str, float]:
    """Return where each row in view stands, by its id."""
    return dict(
        page.evaluate(
            "() => [...document.querySelectorAll('#rows > li')].map((row) => [row.id, row.getBoundingClientRect()])"
            ".filter(([id, box]) => id && box.height && box.bottom > 60 && box.top < innerHeight)"
            ".map(([id, box]) => [id, Math.round(box.top)])"
        )
    )


def test_scrolling_brings_the_next_rows_and_takes_the_far_ones(visitor: Visitor) -> None:
    """Users of long traces waited for ever or held every row. Two windows at most are in the page, in order.

    Down to the last row and up to the first: what is in view stays where it is while rows come and go, counts and
    address tell which rows are there, and no heading or id is there twice.
    """
    prepared(visitor)
    page = visitor.open(RUN)
    n_rows = int((page.locator("#shown").text_content() or "").partition(" of ")[2].partition(" ")[0])
    page.mouse.move(300, 600)
    seen = set(tops(page))
    for way in (1, -1):
        goal = n_rows if way > 0 else 1
        told = "[data-last]" if way > 0 else "[data-first]"
        for _ in range(80):
            if page.locator(f"#shown {told}").text_content() == str(goal):
                break
            before = page.locator("#shown").text_content()
            page.mouse.wheel(0, way * 700)
            page.wait_for_function(
                "([way, before]) => document.querySelector('#shown').textContent !== before"
                " || (way > 0 ? innerHeight + scrollY >= document.documentElement.scrollHeight - 60 : scrollY < 60)"
                " || document.querySelector('#rows').getBoundingClientRect()[way > 0 ? 'bottom' : 'top']"
                " * way > (way > 0 ? innerHeight + 300 : 256)",
                arg=[way, before],
            )
            seen |= set(tops(page))
            assert page.locator("#rows a.row").count() <= 2 * WINDOW
        assert page.locator(f"#shown {told}").text_content() == str(goal)
        keys = page.evaluate("() => [...document.querySelectorAll('[id]')].map((node) => node.id)")
        assert len(keys) == len(set(keys))
        titles = page.locator("#rows > .turn:not([hidden]) .fold").all_text_contents()
        assert len(titles) == len(set(titles))
        order = page.locator("#rows a.row").evaluate_all("rows => rows.map((row) => Number(row.dataset.left))")
        assert order == sorted(order)
    assert "from=" not in page.url
    assert len([key for key in seen if key.startswith("r")]) > n_rows * 0.8


def test_rows_stay_where_they_are_while_others_come_and_go(visitor: Visitor) -> None:
    """Taking the far window away above moves nothing in view; j and k go on into the next window and back."""
    prepared(visitor)
    page = visitor.open(f"{RUN}?from={WINDOW}")
    is_shown = page.locator("#shown")
    for in_view, expected in ((5, f"{WINDOW + 1}–{3 * WINDOW}"), (WINDOW + 12, f"{2 * WINDOW + 1}–{4 * WINDOW}")):
        page.locator("#rows a.row").nth(in_view).scroll_into_view_if_needed()
        before = tops(page)
        page.evaluate("extend(1)")
        expect(is_shown).to_contain_text(f"rows {expected} of")
        after = tops(page)
        assert before.keys() & after.keys()
        assert all(abs(after[key] - before[key]) <= 1 for key in before.keys() & after.keys())
    page.locator("#rows a.row").last.focus()
    page.keyboard.press("j")
    expect(is_shown).to_contain_text(f"rows {3 * WINDOW + 1}–{5 * WINDOW}")
    expect(page.locator("#rows a.row").nth(WINDOW)).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator("#rows a.row").nth(WINDOW - 1)).to_be_focused()
    page.locator("#rows a.row").first.focus()
    page.keyboard.press("k")
    expect(is_shown).to_contain_text(f"rows {2 * WINDOW + 1}–{4 * WINDOW}")
    expect(page.locator("#rows a.row").nth(WINDOW - 1)).to_be_focused()
    page.locator("#rows a.row").first.click()
    expect(page.locator("aside#panel.open")).to_be_visible()


def test_turns_fold_in_place_and_a_drag_zooms(visitor: Visitor) -> None:
    """A folded turn says what it hides, rows that come later are folded too; a drag over the strip draws that part."""
    prepared(visitor)
    page = visitor.open(RUN)
    heading = page.locator("#rows .fold", has_text=re.compile(r"^Turn 2$"))
    heading.click()
    expect(heading).to_have_attribute("aria-expanded", "false")
    expect(heading).to_have_attribute("data-hides", "2 rows")
    hidden = page.locator("#rows > .folded").count()
    assert hidden == 2
    page.get_by_role("button", name="Collapse turns").click()
    assert page.locator("#rows a.row:visible").count() == 0
    page.evaluate("extend(1)")
    expect(page.locator("#shown")).to_contain_text(f"rows 1–{2 * WINDOW}")
    assert page.locator("#rows a.row:visible").count() == 0
    page.screenshot(path=SCREENSHOTS / "long-run-folded.png")
    page.get_by_role("button", name="Expand turns").click()
    assert page.locator("#rows a.row:visible").count() == 2 * WINDOW
    box = page.locator("#strip svg").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 8, steps=3)
    page.mouse.up()
    page.wait_for_url("**part=*")
    expect(page.locator("#strip-part")).to_have_count(1)
    expect(page.get_by_role("link", name="whole run")).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "long-run-part.png")
    page.locator("label.chip", has_text="Tools").click()
    expect(page.locator("#shown")).to_contain_text("in all")
    assert "part=" in page.url


def test_the_strip_leads_into_other_windows(visitor: Visitor) -> None:
    """A click in the middle of the strip shows and focuses a row from there, though it was not in the page."""
    prepared(visitor)
    page = visitor.open(RUN)
    box = page.locator("#strip svg").first.bounding_box()
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
