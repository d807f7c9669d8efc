"""Opens a long run in Chromium: how soon its first row stands there, how many rows it holds, what scrolling leaves."""

import os
import shutil
import statistics
import time
from typing import Any

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.test.testcases import LiveServerThread
from playwright.sync_api import Page, sync_playwright

OPENED = 5
MOST_WINDOWS = 1_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def browsed(person: Any, path: str) -> dict[str, float]:
    """Return milliseconds to the first row, rows in the page, and its heap before and after scrolling to the end."""
    from debugger.access import make_sign_in_link  # noqa: PLC0415 - needs the settings

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
    before, most, n_windows = heap_kib(page), page.locator("#rows a.row").count(), 1
    while page.locator("#pager-end a[rel=next]").count() and n_windows < MOST_WINDOWS:
        last = page.locator("#shown [data-last]").text_content()
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        page.wait_for_function("last => document.querySelector('#shown [data-last]').textContent !== last", arg=last)
        n_windows += 1
        most = max(most, page.locator("#rows a.row").count())
    return {
        "first row, ms": round(statistics.median(times)), "rows in the page, most": most,
        "windows scrolled": n_windows, "heap at first, KiB": before, "heap at the end, KiB": heap_kib(page),
    }  # fmt: skip


def heap_kib(page: Page) -> int:
    """Return the page's JavaScript heap after a collection."""
    tools = page.context.new_cdp_session(page)
    tools.send("HeapProfiler.collectGarbage")
    tools.send("Performance.enable")
    metrics = {metric["name"]: metric["value"] for metric in tools.send("Performance.getMetrics")["metrics"]}
    tools.detach()
    return round(metrics["JSHeapUsedSize"] / 1024)
