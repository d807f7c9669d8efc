"""The inspector in a real browser: by mouse, by keyboard, live, hostile payloads, narrow screens, both themes."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Visitor
from tests.factories import Recorder, send, typical_run
from tests.spoken_run import spoken_run

pytestmark = pytest.mark.browser

RUN = "/alpha/runs/r-42/"
RECENT = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=2)


def panel(page: Page) -> Locator:
    return page.locator("aside#panel")


def test_from_the_list_to_the_reason_by_mouse(visitor: Visitor) -> None:
    """List, run, activation: three clicks; the address then leads to the same view, and Escape leaves it."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/")
    page.get_by_role("link", name="Release the parser package").click()
    expect(page).to_have_url(re.compile(r"/alpha/runs/r-42/$"))
    page.get_by_role("link", name="Activation").filter(has_text="tool.failed").first.click()
    why = page.locator("#why")
    expect(why).to_contain_text("needed 212 tokens, 188 left of 400")
    expect(why).to_contain_text("Where it stands in the next request")
    expect(page).to_have_url(re.compile(r"\?event=r-42%3A8$"))
    page.reload()
    expect(page.locator("#why")).to_contain_text("k-17")
    expect(page.locator("a.row[aria-current]")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(panel(page)).to_contain_text("This run")
    expect(page).to_have_url(re.compile(r"/r-42/$"))
    expect(page.locator("a.row[aria-current]")).to_have_count(0)


def test_from_the_list_to_the_reason_by_keyboard(visitor: Visitor) -> None:
    """j, k and Enter lead as far as the mouse; / filters, ? helps, Escape leaves each."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/alpha/runs/r-42/$"))
    for _ in range(5):
        page.keyboard.press("j")
    page.keyboard.press("k")
    expect(page.locator("a.row:focus")).to_contain_text("Activation")
    page.keyboard.press("Enter")
    expect(page.locator("#why")).to_contain_text("k-17")
    page.keyboard.press("/")
    page.keyboard.type("git init")
    expect(page.locator("a.row")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"q=git\+init"))
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_a_request_is_opened_from_the_timeline(visitor: Visitor) -> None:
    """The row of a model leads to the request as sent, beside the timeline; from there to the next and to its page."""
    send(visitor.project, spoken_run()[0])
    page = visitor.open("/alpha/runs/spoken/")
    row = page.locator("#rows li.model").first
    row.hover()
    row.get_by_role("link", name="Open the request as it was sent").click()
    sent = page.locator("aside#panel #sent-request")
    expect(sent).to_contain_text("request 1 of 2")
    expect(sent.locator(".stretch.cut")).to_contain_text("The bu")
    expect(page.locator("a.row[aria-current]")).to_have_count(1)
    sent.get_by_role("link", name="next").click()
    expect(sent).to_contain_text("no tools were sent with it")
    kept = sent.locator(".messages li.kept").first
    expect(kept.locator("pre")).to_be_hidden()
    kept.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(kept.locator("pre")).to_have_text("Speak plainly.")
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(REPEATED_IDS) == []
    sent.get_by_role("link", name="Open as a page").click()
    expect(page).to_have_url(re.compile(r"/requests/spoken:11/$"))
    page.get_by_role("link", name="previous").click()
    expect(page.locator("#sent-request")).to_contain_text("the first request of the run")
    page.goto("/alpha/runs/spoken/")
    row.locator("a.row").click()
    panel(page).get_by_role("link", name="The request, as it was sent").click()
    expect(sent).to_contain_text("request 1 of 2")


def test_filters_count_what_they_show(visitor: Visitor) -> None:
    """A chip shows its rows, the count is always there, and a reload keeps the filter."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open(RUN)
    page.get_by_text("Failed", exact=False).locator("xpath=ancestor-or-self::label").first.click()
    expect(page.locator("a.row")).to_have_count(2)
    expect(page.locator("#shown")).to_contain_text("2 of 12 rows")
    page.reload()
    expect(page.locator("a.row")).to_have_count(2)


def test_a_run_is_followed_without_a_jump(visitor: Visitor) -> None:
    """New rows appear, the open row stays open and focused and where it was, and asking ends with the run."""
    events = typical_run("r-42", RECENT)
    send(visitor.project, events[:13])
    page = visitor.open(RUN)
    expect(page.locator(".live")).to_be_visible()
    row = page.get_by_role("link", name="Activation").first
    row.click()
    expect(page.locator("#why")).to_contain_text("Activation")
    before = row.bounding_box()
    send(visitor.project, events[13:-1])
    expect(page.locator("#rows")).to_contain_text("git init", timeout=10_000)
    expect(page.locator("#rows")).to_contain_text("1 injected")
    expect(page.locator("a.row[aria-current]")).to_have_attribute("data-event", "r-42:8")
    expect(page.locator("a.row:focus")).to_have_attribute("data-event", "r-42:8")
    after = row.bounding_box()
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 1
    send(visitor.project, events[-1:])
    expect(page.locator("#run-head")).to_contain_text("completed", timeout=10_000)
    expect(page.locator(".live")).to_have_count(0)
    expect(page.locator("#live")).not_to_have_attribute("hx-get", re.compile("."))
    shown = page.locator("#rows > li").all_inner_texts()
    page.reload()
    assert page.locator("#rows > li").all_inner_texts() == shown


def test_the_list_grows_by_itself_but_not_under_the_mouse(visitor: Visitor) -> None:
    """A new run appears on top; while a row is pointed at it is only announced."""
    send(visitor.project, typical_run("r-1"))
    page = visitor.open("/alpha/runs/")
    send(visitor.project, typical_run("r-2"))
    expect(page.locator("#run-rows tr[data-key]")).to_have_count(2, timeout=10_000)
    page.locator("tr[data-key=r-1]").hover()
    send(visitor.project, typical_run("r-3"))
    expect(page.get_by_text("1 new")).to_be_visible(timeout=10_000)
    expect(page.locator("#run-rows tr[data-key]")).to_have_count(2)
    page.get_by_text("1 new").click()
    expect(page.locator("#run-rows tr[data-key]")).to_have_count(3)


def test_the_first_run_replaces_the_instructions(visitor: Visitor) -> None:
    """The empty page shows a command with the real address and becomes the list with the first event."""
    page = visitor.open("/alpha/runs/")
    expect(page.locator("#first-event")).to_contain_text(f"curl -sS {visitor.base_url}/v1/events")
    expect(page.locator("#first-trace")).to_contain_text(f"OTEL_EXPORTER_OTLP_ENDPOINT={visitor.base_url}\n")
    first = typical_run("r-1", RECENT)[:1]
    send(visitor.project, first, fold=False)
    expect(page.locator("tr[data-key=r-1]")).to_contain_text("running", timeout=10_000)


def test_list_filters_are_links(visitor: Visitor) -> None:
    """A filter goes into the address, without the empty ones, and the address alone shows the same."""
    send(visitor.project, typical_run("r-42"))
    send(visitor.project, typical_run("other", RECENT, ended=False))
    page = visitor.open("/alpha/runs/")
    page.get_by_label("any status").select_option("running")
    expect(page.locator("tr[data-key]")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/alpha/runs/\?status=running$"))
    page.reload()
    expect(page.locator("tr[data-key]")).to_have_count(1)
    page.get_by_role("link", name="Clear", exact=True).click()
    expect(page.locator("tr[data-key]")).to_have_count(2)


def test_hostile_payload_runs_nothing(visitor: Visitor) -> None:
    """Markup in every text of a run is text; the policy has nothing to report."""
    bad = "<script>alert(1)</script><img src=https://evil.example/x onerror=alert(2)><svg onload=alert(3)>"
    to = Recorder("r-42")
    to.add("run.started", {"task": bad, "agent": bad})
    failed = to.add("tool.failed", {"detail": bad, "error_class": bad}, tool=bad, call_id=bad, turn=1)
    to.add("activation.requested", {"trigger": "tool.failed", "query": bad}, activation_id="r-42:a1", caused_by=failed)
    offer = {"trigger": "tool.failed", "revision": 1, "proposition": f"`{bad}`", "algorithm_version": "x", "rank": 1}
    to.foreign("h1", "hint.offered", offer, activation_id="r-42:a1", hint_id="h1", knowledge_id=bad)
    to.add(
        "activation.completed", {"trigger": "tool.failed", "result": "success", "block": bad}, activation_id="r-42:a1"
    )
    send(visitor.project, to.events)
    page = visitor.open(RUN)
    for row in page.locator("a.row").all():
        row.click()
        expect(row).to_have_attribute("aria-current", "true")
        expect(panel(page)).to_contain_text("alert(")
    page.goto("/alpha/runs/")
    expect(page.locator("tr[data-key]")).to_contain_text("<script>")


def test_times_are_the_viewers_with_utc_on_hover(visitor: Visitor) -> None:
    """A viewer in Tokyo reads their own time; the title has UTC."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open(RUN, timezone_id="Asia/Tokyo")
    time = page.locator("#run-head time").first
    expect(time).to_contain_text("12:12:08")
    expect(time).to_have_attribute("title", "2026-11-30 03:12:08.020 UTC")


def test_the_theme_is_kept(visitor: Visitor) -> None:
    """The switch turns light to dark, and the next page is dark from the start."""
    page = visitor.open("/alpha/runs/")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Switch between light and dark").click()
    dark = page.evaluate(background)
    assert light != dark
    page.goto("/alpha/keys/")
    assert page.evaluate(background) == dark


def test_a_key_is_made_and_copied_by_sight(visitor: Visitor) -> None:
    """The new key stands on the page once; after a reload only its beginning does."""
    page = visitor.open("/alpha/keys/")
    page.get_by_label("Name").fill("kernel")
    page.get_by_role("button", name="Make a key").click()
    raw = page.locator("#raw-key").inner_text()
    assert raw.startswith("tk_")
    page.goto("/alpha/keys/")
    expect(page.locator("#raw-key")).to_have_count(0)
    expect(page.get_by_text("kernel", exact=True)).to_be_visible()
    assert raw not in page.content()


NAMELESS = """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary")]
  .filter(node => !(node.ariaLabel || node.textContent.trim() || node.title || (node.labels && node.labels.length)))
  .map(node => node.outerHTML.slice(0, 120))"""
REPEATED_IDS = """() => { const ids = [...document.querySelectorAll("[id]")].map(node => node.id);
  return ids.filter((id, index) => ids.indexOf(id) !== index); }"""
