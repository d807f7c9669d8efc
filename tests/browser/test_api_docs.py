"""The API document as a page: readable without signing in, under the policy of every page, without a complaint."""

from typing import Any

import pytest
from playwright.sync_api import ConsoleMessage, Page, Request, expect

from tests.conftest import RunningStack

pytestmark = [pytest.mark.stack, pytest.mark.browser]


def test_api_page_opens_signed_out_without_a_complaint(page: Page, stack: RunningStack) -> None:
    """Every operation is listed and opens; nothing is loaded from elsewhere and the console stays silent."""
    complaints: list[str] = []
    foreign: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            complaints.append(message.text)

    def see(request: Request) -> None:
        if not request.url.startswith((stack.base_url, "data:")):
            foreign.append(request.url)

    page.on("console", hear)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", see)
    response = page.goto("/v1/docs")
    assert response is not None and response.status == 200
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy and "script-src 'self';" in policy and "style-src 'self';" in policy
    expect(page.locator("#operations-send-send_events")).to_be_visible()
    document = stack.get("/v1/schema", format="json").json()
    assert page.locator(".opblock").count() == sum(len(item) for item in document["paths"].values())
    page.locator("#operations-send-send_events .opblock-summary-control").click()
    expect(page.locator("#operations-send-send_events .responses-table").first).to_be_visible()
    page.locator("button.authorize").click()
    expect(page.get_by_role("heading", name="Available authorizations")).to_be_visible()
    assert (complaints, foreign) == ([], [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_api_page_is_read_on_a_narrow_screen_and_in_the_dark(page: Page, stack: RunningStack, scheme: Any) -> None:
    """Nothing scrolls sideways but the table of limits itself; light or dark follows the system."""
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 400, "height": 860})
    page.goto("/v1/docs")
    expect(page.locator("#operations-send-send_events")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    lightness = page.evaluate("+getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    assert (lightness < 64) is (scheme == "dark")
