"""A real Chromium on a live server of the test's own database; any complaint of the page fails the test."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from playwright.sync_api import Browser, BrowserContext, Page

from debugger.access import make_sign_in_link
from ingest.models import Project
from tests.factories import make_person, make_project

SCREENSHOTS = settings.BASE_DIR / "var" / "screenshots"


@pytest.fixture(scope="session", autouse=True)
def _orm_beside_playwright() -> Iterator[None]:
    """Playwright's loop counts as running in this thread, which Django takes for asyncio code that must not block."""
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    yield
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@dataclass
class Visitor:
    """A person at a browser: opens signed-in pages and remembers whatever a page complains about or asks elsewhere."""

    browser: Browser
    base_url: str
    project: Project
    complaints: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)
    sign_in_path: Callable[[], str] = str

    def open(self, path: str, **options: Any) -> Page:
        """Open a page in a fresh browser context, signed in by a one-time link. `options` are Playwright's."""
        options = {"viewport": {"width": 1280, "height": 860}, **options}
        context = self.browser.new_context(base_url=self.base_url, **options)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", lambda request: self._request(request.url))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(self.sign_in_path())
        page.goto(path)
        return page

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _request(self, url: str) -> None:
        if urlsplit(url).netloc != urlsplit(self.base_url).netloc:
            self.complaints.append(f"asked elsewhere: {url}")


@pytest.fixture
def visitor(transactional_db: None, live_server: Any, browser: Browser) -> Iterator[Visitor]:
    """A member of the project alpha at the pages of this test's database. The test fails when a page complained."""
    project = make_project("alpha")
    person = make_person("alice", project)
    visitor = Visitor(browser, live_server.url, project, sign_in_path=lambda: make_sign_in_link(person))
    yield visitor
    for context in visitor.contexts:
        context.close()
    assert visitor.complaints == []
