"""Opens a long run in Chromium: how soon its first row stands there, how many rows a page holds, what paging leaves."""

import os
import shutil
import statistics
import time
from typing import Any

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.test.testcases import LiveServerThread
from playwright.sync_api import Page, sync_playwright

from debugger.access import make_sign_in_link

OPENED = 5
MOST_WINDOWS = 600
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def browsed(person: Any, path: str) -> dict[str, float]:
    """Return milliseconds to the first row, rows in the page, and its heap before and after paging to the end."""
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's loop counts as running in this thread
    server = LiveServerThread("127.0.0.1", StaticFilesHandler)
    server.daemon = True
    server.start()
    server.is_ready.wait()
    if server.error:
        raise server.error
    try:
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = chromium.new_page(viewport={"width": 1280, "height": 860})
            base = f"http://127.0.0.1:{server.port}"
            page.goto(base + make_sign_in_link(person))
            figures = _figures(page, base + path)
            chromium.close()
    finally:
        server.terminate()
        server.join()
    return figures


def _figures(page: Page, address: str) -> dict[str, float]:
    times = []
    for _ in range(OPENED):
        begun = time.perf_counter()
        page.goto(address, wait_until="commit")
        page.locator("a.row").first.wait_for()
        times.append((time.perf_counter() - begun) * 1000)
    page.wait_for_load_state()
    before, most, n_windows = _heap(page), page.locator("#rows a.row").count(), 1
    while page.locator(".pager a[rel=next]").count() and n_windows < MOST_WINDOWS:
        first = page.locator("#rows").get_attribute("data-from")
        page.locator(".pager a[rel=next]").last.click()
        page.wait_for_function("first => document.querySelector('#rows').dataset.from !== first", arg=first)
        n_windows += 1
        most = max(most, page.locator("#rows a.row").count())
    return {
        "first row, ms": round(statistics.median(times)), "rows in the page, most": most,
        "windows paged": n_windows, "heap at first, KiB": before, "heap at the end, KiB": _heap(page),
    }  # fmt: skip


def _heap(page: Page) -> int:
    """Return the page's JavaScript heap after a collection."""
    tools = page.context.new_cdp_session(page)
    tools.send("HeapProfiler.collectGarbage")
    tools.send("Performance.enable")
    metrics = {metric["name"]: metric["value"] for metric in tools.send("Performance.getMetrics")["metrics"]}
    tools.detach()
    return round(metrics["JSHeapUsedSize"] / 1024)
