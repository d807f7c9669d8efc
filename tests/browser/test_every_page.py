"""Every page in a real Chromium, light and dark, wide and narrow: axe-core finds nothing, and nothing is cut off.

A picture of each is kept under `var/screenshots` for a person to look at.
"""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from debugger.embedded.sockets import free_port
from tests.browser.accessibility import wrong_with
from tests.browser.conftest import SCREENSHOTS, Visitor
from tests.browser.every_page import NO_PAGE, VIEWS, View, fill, names_of_addresses

pytestmark = pytest.mark.browser


def test_every_address_is_looked_at() -> None:
    """A new page gets its views in `every_page.VIEWS`, or the reason why it shows none in NO_PAGE there."""
    assert names_of_addresses() - VIEWS.keys() - NO_PAGE.keys() == set()
    assert not VIEWS.keys() & NO_PAGE.keys()


@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_can_be_used_by_everybody(visitor: Visitor, settings: Any, tmp_path: Path, width: int) -> None:
    """No violation of any impact, no id twice, no complaint, no request elsewhere, no sideways scrolling."""
    settings.TEMPORAL_ADDRESS = f"127.0.0.1:{free_port()}"
    settings.CONFORMANCE_REPORT = tmp_path / "conformance.json"
    settings.EXPERIMENTS_DIR = tmp_path
    key = fill(visitor.project, settings.CONFORMANCE_REPORT)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page = visitor.open("/alpha/runs/", viewport={"width": width, "height": 860}, reduced_motion="reduce")
    views = sorted((view for views in VIEWS.values() for view in views), key=lambda view: view.signed_out)
    wrong = []
    for view in views:
        if view.signed_out:
            page.context.clear_cookies()
        wrong += [f"{view.name}, {told}" for told in _look(visitor, page, view, view.path.format(key=key.pk), width)]
    assert wrong == [], "\n" + "\n".join(wrong)


def _look(visitor: Visitor, page: Page, view: View, path: str, width: int) -> list[str]:
    """Open one view, look at it in the light and then in the dark, and return what is wrong with it."""
    page.emulate_media(color_scheme="light")
    answer = page.goto(path)
    found = [] if answer and answer.status == view.status else [f"status {answer and answer.status}"]
    if view.click:
        page.locator(view.click).first.click()
    if view.press:
        page.keyboard.press(view.press)
    found += [f"light: {told}" for told in wrong_with(page)]
    page.screenshot(path=SCREENSHOTS / f"{view.name}-{width}-light.png", full_page=True)
    page.emulate_media(color_scheme="dark")
    found += [f"dark: {told}" for told in wrong_with(page, colours_only=True)]
    page.screenshot(path=SCREENSHOTS / f"{view.name}-{width}-dark.png", full_page=True)
    expected = f"the server responded with a status of {view.status}"  # the browser's word on a refusal
    found += [told for told in visitor.complaints if view.status == 200 or expected not in told]
    visitor.complaints.clear()
    return found
