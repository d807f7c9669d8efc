"""The settings page in a real browser: what is saved is shown again, what is risky is asked about, at every width."""

import re

import pytest
from playwright.sync_api import expect

from ingest.models import Project, Run
from tests.browser.conftest import Visitor
from tests.factories import make_person, send, typical_run
from tests.ingest.aged import age, days_ago

pytestmark = pytest.mark.browser


def test_retention_and_patterns_are_saved(visitor: Visitor) -> None:
    """Both forms show what was saved; a limit that lets a run go at once is saved on the second, ticked try."""
    send(visitor.project, typical_run("r-42"))
    age(visitor.project, "r-42", days_ago(10))
    page = visitor.open("/alpha/runs/")
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Days kept").fill("30")
    page.locator("#retention").get_by_role("button", name="Save").click()
    expect(page.locator("#retention")).to_contain_text(f"Kept now: {days_ago(30)} and later.")
    page.get_by_label("Kind of pattern 1").fill("order_id")
    page.get_by_label("Pattern 1", exact=True).fill("ORD-[0-9]{8}")
    page.locator("#redaction").get_by_role("button", name="Save").click()
    expect(page.get_by_label("Pattern 1", exact=True)).to_have_value("ORD-[0-9]{8}")
    expect(page.get_by_label("Pattern 3", exact=True)).to_be_visible()
    visitor.complaints.clear()
    page.get_by_label("Days kept").fill("7")
    page.locator("#retention").get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("1 run first seen before")
    visitor.complaints = [told for told in visitor.complaints if "400" not in told]  # the browser's word on the answer
    page.get_by_label("Forget them").check()
    page.locator("#retention").get_by_role("button", name="Save").click()
    expect(page.locator("#retention")).to_contain_text(f"Kept now: {days_ago(7)} and later.")
    assert Project.objects.get(slug="alpha").retention_days == 7


def test_a_run_and_then_its_project_are_deleted(visitor: Visitor) -> None:
    """The slug has to be typed; Escape leaves the question and nothing has happened."""
    send(visitor.project, typical_run("r-42"))
    page = visitor.open("/alpha/runs/r-42/")
    page.get_by_text("Delete the run…").click()
    sheet = page.locator("#ask-delete form")
    expect(sheet).to_be_visible()
    sheet.get_by_role("textbox").fill("beta")
    sheet.get_by_role("button").click()
    assert Run.objects.filter(run_id="r-42").exists()
    page.keyboard.press("Escape")  # leaves the field
    page.keyboard.press("Escape")
    expect(sheet).to_be_hidden()
    page.get_by_text("Delete the run…").click()
    sheet.get_by_role("textbox").fill("alpha")
    sheet.get_by_role("button").click()
    expect(page.get_by_role("heading", name="Deleted")).to_be_visible()
    assert not Run.objects.exists()
    page.goto("/alpha/settings/")
    page.locator("#delete").get_by_role("textbox").fill("alpha")
    page.get_by_role("button", name="Delete the project").click()
    expect(page.locator("#content")).to_contain_text("refused and hidden from now on")
    page.get_by_role("link", name="To your projects").click()
    expect(page.locator("#content")).to_contain_text("member of no project")


def test_nothing_is_cut_off_on_a_narrow_screen(visitor: Visitor) -> None:
    """Nothing scrolls sideways, the menu stays on one line, and every field has a name."""
    Project.objects.update(
        retention_days=30, redaction_patterns=[{"kind": "order_id", "pattern": "ORD-[0-9]{8}" + "x" * 200}]
    )
    make_person("a-person-with-a-long-name-" + "n" * 100, visitor.project)
    page = visitor.open("/alpha/settings/", viewport={"width": 400, "height": 860})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heights = page.locator(".top nav a").evaluate_all("links => links.map(link => link.getClientRects().length)")
    assert set(heights) == {1}
    assert page.locator(".top nav a").filter(has_text="API keys").evaluate("link => link.scrollHeight") <= 48
    for field in page.locator("main input:not([type=hidden])").all():
        assert field.evaluate("input => !!(input.labels.length || input.ariaLabel)")
    expect(page.get_by_role("link", name="Settings")).to_have_attribute("aria-current", "page")
    assert re.search("30", page.get_by_label("Days kept").input_value())
