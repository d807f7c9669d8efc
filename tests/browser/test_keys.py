"""The keys' pages in a real browser: a key is shown once with what an exporter needs; nothing is cut off."""

import pytest
from django.contrib.auth.models import Group
from playwright.sync_api import expect

from ingest.authentication import create_key
from ingest.models import ApiKey
from tests.browser.conftest import Visitor

pytestmark = pytest.mark.browser


def test_a_key_is_shown_once_with_an_exporters_environment(visitor: Visitor) -> None:
    """The key stands in the lines to copy; after a reload it is nowhere."""
    page = visitor.open("/alpha/keys/")
    page.get_by_label("Name").fill("exporter")
    page.get_by_role("button", name="Make a key").click()
    raw = page.locator("#raw-key").inner_text()
    expect(page.locator("#otlp")).to_contain_text(f"OTEL_EXPORTER_OTLP_ENDPOINT={visitor.base_url}\n")
    expect(page.locator("#otlp")).to_contain_text(f"Authorization=Bearer%20{raw}")
    page.goto("/alpha/keys/")
    expect(page.get_by_role("link", name="exporter")).to_be_visible()
    assert raw not in page.content()


def test_who_looks_on_is_offered_no_form(visitor: Visitor) -> None:
    """A viewer reads the list and the deliveries, and is told that this is all."""
    create_key(visitor.project, "exporter", ["ingest"])
    visitor.project.memberships.get().user.groups.add(Group.objects.create(name="alpha viewers"))
    page = visitor.open("/alpha/keys/")
    expect(page.locator("#content")).to_contain_text("You may look at these keys, not make, change or revoke one.")
    expect(page.locator("main form")).to_have_count(0)
    page.get_by_role("link", name="exporter").click()
    expect(page.get_by_role("heading", name="exporter")).to_be_visible()
    expect(page.locator("main form")).to_have_count(0)


def test_no_word_of_the_list_is_broken(visitor: Visitor) -> None:
    """Times and buttons stay on one line, and nothing scrolls sideways."""
    create_key(visitor.project, "my exporter", ["ingest", "observe", "read"])
    page = visitor.open("/alpha/keys/", viewport={"width": 400, "height": 860})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for place in (page.locator("td .button"), page.locator("td time"), page.locator("td a")):
        assert place.first.evaluate("it => it.getClientRects().length") == 1
        assert place.first.bounding_box()["height"] < 40  # type: ignore[index]
    assert ApiKey.objects.count() == 1
