"""The chain of a run in a real browser: from the run list to what would have helped, by mouse and by keyboard."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SCREENSHOTS, Visitor
from tests.browser.test_inspector import NAMELESS, REPEATED_IDS
from tests.factories import send, typical_run

pytestmark = pytest.mark.browser

RECENT = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=2)
TASK = "Release the parser package"
MOST_TABS = 120
# What a person hears of the link that has the keyboard.
FOCUSED = """() => {
    const at = document.activeElement;
    return at.tagName.toLowerCase() == "a" ? at.getAttribute("aria-label") || at.textContent : "";
}"""


def test_from_the_list_to_what_a_dropped_hint_would_have_changed(visitor: Visitor) -> None:
    """Four clicks, by the picture or by the timeline: run, chain, the box of dropped hints, what followed."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/")
    page.get_by_role("link", name=TASK).click()
    page.get_by_role("link", name="chain", exact=True).click()
    expect(page).to_have_url(re.compile(r"/runs/r-42/chain/$"))
    page.get_by_role("link", name="Delivery: dropped: activation tokens, 1 hint.").click()
    expect(page.locator("#lines")).to_contain_text("needed 212 tokens, 188 left of 400")
    expect(page.locator("#lines li")).to_have_count(1)
    page.get_by_role("link", name="would it have helped?").click()
    helped = page.locator("#would-help")
    expect(helped).to_be_in_viewport()
    expect(helped).to_contain_text("k-20")
    expect(page.locator("#why")).to_contain_text("needed 212 tokens, 188 left of 400")

    page.goto("/alpha/runs/")
    page.get_by_role("link", name=TASK).click()
    page.get_by_role("link", name="Activation").filter(has_text="tool.failed").first.click()
    page.locator("#why").get_by_role("link", name="would it have helped?").first.click()
    expect(helped).to_be_in_viewport()


def test_a_chain_is_walked_by_keyboard(visitor: Visitor) -> None:
    """Each box is reached by Tab and opened by Enter; the list below by j."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/r-42/chain/")
    page.locator("svg.chain a").first.focus()
    for _ in range(2):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('svg.chain') !== null")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"\?node=.+#lines$"))
    expect(page.locator("svg.chain a[aria-current]")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("#why")).to_be_visible()


def test_the_walk_to_a_dropped_hint_takes_a_keyboard_alone(visitor: Visitor) -> None:
    """Each of the four links is reached by Tab and followed by Enter, from the list on; nothing is clicked."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/")
    steps = (
        (TASK, r"/runs/r-42/$"),
        ("chain", r"/runs/r-42/chain/$"),
        ("dropped: activation tokens", r"\?node=.+#lines$"),
        ("would it have helped?", r"/activations/r-42:a1/#would-help$"),
    )
    for said, address in steps:
        for _ in range(MOST_TABS):
            page.keyboard.press("Tab")
            if said in page.evaluate(FOCUSED):
                break
        assert said in page.evaluate(FOCUSED)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile(address), timeout=60_000)
    expect(page.locator("#would-help")).to_contain_text("k-20")


def test_a_chain_in_progress_waits_for_its_reader(visitor: Visitor) -> None:
    """What is new is announced in the head, and shown when it is asked for."""
    events = typical_run("r-42", RECENT)
    send(visitor.project, events[:12])
    page = visitor.open("/alpha/runs/r-42/chain/?node=offered")
    expect(page.locator("#chain-news")).to_have_text("live")
    place = page.locator("svg.chain").bounding_box()
    send(visitor.project, events[12:])
    news = page.get_by_role("link", name="The run went on")
    expect(news).to_be_visible(timeout=60_000)
    assert page.locator("svg.chain").bounding_box() == place
    news.click()
    expect(page.locator("#lines")).to_contain_text("injected")
    expect(page.locator("#chain-news")).to_have_count(0)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_chain_fits_its_screen(visitor: Visitor, width: int, theme: str) -> None:
    """Nothing scrolls sideways; a narrow screen has the table and no picture. Pictures are kept to look at."""
    send(visitor.project, typical_run("r-42", RECENT))
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    options = {"viewport": {"width": width, "height": 900}, "color_scheme": theme}
    page = visitor.open("/alpha/runs/r-42/chain/", **options)
    for name, path in (("chain", "chain/"), ("chain-why", "activations/r-42:a1/")):
        page.goto(f"/alpha/runs/r-42/{path}")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert page.evaluate(NAMELESS) == []
        assert page.evaluate(REPEATED_IDS) == []
        page.screenshot(path=SCREENSHOTS / f"{name}-{width}-{theme}.png", full_page=True)
    page.goto("/alpha/runs/r-42/chain/")
    assert page.locator("svg.chain").is_visible() == (width > 680)
    expect(page.locator(".chain-table")).to_be_visible()
