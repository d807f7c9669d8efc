"""A person's verdict in the panel of a search: kept and taken back by keyboard, without losing the place."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Visitor
from tests.factories import send, typical_run

pytestmark = pytest.mark.browser


def test_a_verdict_is_given_and_taken_back_where_one_is(visitor: Visitor) -> None:
    """The hint that was judged has the focus afterwards, and a word says that it was kept."""
    send(visitor.project, typical_run())
    page = visitor.open("/alpha/runs/r-42/?event=r-42%3A8")
    ask = page.locator("details.verdict summary").first
    ask.focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Helpful").first.click()
    expect(page.locator("#toast")).to_have_text("Kept")
    expect(ask).to_have_text("Change the verdict…")
    expect(ask).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Take it back").click()
    expect(ask).to_have_text("Was it helpful?")
    expect(ask).to_be_focused()
    assert visitor.complaints == []
