"""What axe-core finds wrong with a page that is open: by eye, by ear and by keyboard.

Its script is that of the wheel axe-playwright-python. It runs through the browser's debugging protocol, so that the
policy of our pages, which lets no script in, stays as it is in production.
"""

from typing import Any, Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

COLOURS: Final = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
RUN: Final = "(options) => axe.run(document, {resultTypes: ['violations'], ...options})"
REPEATED_IDS: Final = """() => { const ids = [...document.querySelectorAll("[id]")].map(node => node.id);
  return ids.filter((id, index) => ids.indexOf(id) !== index); }"""


def found_by_axe(page: Page, *, colours_only: bool = False) -> list[str]:
    """Return each violation as a line: impact, rule, what it is about, how often and the first place.

    Every rule that axe has on by default counts, whatever its impact, those it calls best practices too.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    result: dict[str, Any] = page.evaluate(RUN, COLOURS if colours_only else {})
    return [
        f"{rule['impact']} {rule['id']} ({len(rule['nodes'])}): {rule['help']}: {rule['nodes'][0]['html'][:160]}"
        for rule in result["violations"]
    ]


def wrong_with(page: Page, *, colours_only: bool = False) -> list[str]:
    """Return what axe finds, ids that stand twice, and how far the page scrolls sideways if it does."""
    found = found_by_axe(page, colours_only=colours_only)
    found += [f"id {one} stands twice" for one in page.evaluate(REPEATED_IDS)]
    beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return [*found, f"scrolls sideways by {beyond} px"] if beyond > 0 else found
