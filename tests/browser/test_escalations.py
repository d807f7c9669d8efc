"""Escalations and the conformance matrix in a real browser: by keyboard, at every width, without script errors."""

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect
from pytest_django import Settings

from debugger.models import EscalationDecision
from tests.browser.conftest import SCREENSHOTS, Visitor
from tests.debugger.test_conformance_page import document
from tests.debugger.test_escalations import REASON, escalated_run
from tests.factories import send

pytestmark = pytest.mark.browser


def test_an_escalation_is_found_and_granted(visitor: Visitor) -> None:
    """From the run's notice to the ask, the box of the refused tool, the grant; the count in the menu goes."""
    send(visitor.project, escalated_run())
    page = visitor.open("/alpha/runs/asked/")
    notice = page.get_by_role("region", name="Escalation")
    expect(notice).to_contain_text(REASON)
    expect(page.locator("nav .n")).to_have_text("1")
    notice.get_by_role("link", name="Look and decide").click()
    page.get_by_label("deploy").check()
    page.get_by_label("Other tools to grant").fill("push_tag")
    page.get_by_label("Note").fill("only for this release")
    page.get_by_role("button", name="Grant").dblclick()
    expect(page.get_by_role("heading", name="Decision")).to_be_visible()
    expect(page.locator("#content")).to_contain_text("granted by alice")
    expect(page.locator("nav .n")).to_have_count(0)
    page.get_by_role("link", name="asked", exact=True).click()
    expect(page.locator("a.row[aria-current]")).to_have_count(1)
    [kept] = EscalationDecision.objects.all()
    assert (kept.tools, kept.note) == (["deploy", "push_tag"], "only for this release")


def test_the_list_goes_by_keyboard(visitor: Visitor) -> None:
    """j and Enter open the ask; the link to the run beside it leads to the timeline at the escalation."""
    send(visitor.project, escalated_run())
    page = visitor.open("/alpha/escalations/")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Dismiss")).to_be_visible()
    page.get_by_role("link", name="Escalations").last.click()
    page.get_by_role("link", name="asked", exact=True).click()
    expect(page.locator("a.row[aria-current]")).to_have_count(1)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_the_matrix_is_read_by_keyboard_and_at_any_width(
    visitor: Visitor, settings: Settings, tmp_path: Path, width: int, scheme: str
) -> None:
    """A cell opens beside the matrix under its own address; Escape closes it; nothing scrolls sideways."""
    settings.CONFORMANCE_REPORT = tmp_path / "conformance.json"
    settings.CONFORMANCE_REPORT.write_text(json.dumps(document()))
    send(visitor.project, escalated_run())
    page = visitor.open("/conformance/", viewport={"width": width, "height": 860}, color_scheme=scheme)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    panel = page.locator("aside#panel")
    expect(panel).to_contain_text("because of fail")
    assert page.url.endswith("/conformance/outside-catalogue/scripted/")
    expect(page.locator(".matrix [aria-current]")).to_have_text("fail")
    page.screenshot(path=SCREENSHOTS / f"conformance-cell-{width}-{scheme}.png")
    page.keyboard.press("Escape")
    expect(panel).not_to_contain_text("because of fail")
    for address in ("/conformance/", "/alpha/escalations/", "/alpha/escalations/asked/", "/alpha/runs/asked/"):
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address
