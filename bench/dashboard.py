"""What the dashboard costs a browser and its server.

    make bench-dashboard

In Debian's Chromium, without a window, on a server of its own with 10,000 tasks and 5,000 devices:

- `script_bytes`: what a browser loads before the first page is there, compressed.
- `interactive_ms`: from the navigation to the list of tasks until it is there and the last task of
  the main thread over 50 ms is over, by Chromium's tracing, with a processor 4 times slower.
- `interactive_first_ms`: the same in a browser that was just started and has only the cookie.
- `longest_ms`: the longest script task while a list is scrolled to its end, and how many took more
  than 50 ms; `longest_cpu_ms` is what the longest needed of a processor, also on a busy machine.
  `heap_mb` is measured at the end, after a collection.
- `idle_requests`: what one open page asks of the server in a minute in which nothing happens.

Prints JSON. Times depend on what else the machine does: `load` is the load average meanwhile.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, Playwright, StorageState, expect, sync_playwright

from tests.clusters import CLUSTERS
from tests.databases import SHARED
from tests.processes import ServerProcess
from tests.wallets import Wallet
from tests.web.conftest import BUILD, ROOT, WatchedPage, chromium
from tests.web.dashboard_page import DashboardPage
from tests.web.long_lists import add_devices, add_tasks, heap_mb, scroll_to_end

SLOWER = 4
_LONG_MICROSECONDS = 50_000
# Tasks of the main thread are in the second.
_CATEGORIES = ["devtools.timeline", "disabled-by-default-devtools.timeline", "blink.user_timing"]
_SETTLE_MS = 500
_NOTE_ROWS = """
new MutationObserver((_, observer) => {
  if (document.querySelectorAll("[role=row]").length < 6) return;
  observer.disconnect();
  performance.mark("rows");
}).observe(document, { subtree: true, childList: true });
"""
_IDLE_PAGES = ("/tasks", "/market", "/operator")


def loaded_script(page: Page, url: str) -> int:
    """The compressed size of the scripts of the first page, as they came."""
    session = page.context.new_cdp_session(page)
    session.send("Network.enable")
    scripts: set[str] = set()
    sizes: dict[str, int] = {}

    def note(event: dict[str, Any]) -> None:
        if event["type"] == "Script":
            scripts.add(event["requestId"])

    def add(event: dict[str, Any]) -> None:
        sizes[event["requestId"]] = int(event["encodedDataLength"])

    session.on("Network.responseReceived", note)
    session.on("Network.loadingFinished", add)
    page.goto(f"{url}/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
    return sum(size for name, size in sizes.items() if name in scripts)


def interactive(browser: Browser, page: Page, url: str) -> float:
    """The page itself notes when the rows are there: who asks it from outside asks at intervals of
    up to a second."""
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
    browser.start_tracing(page=page, categories=_CATEGORIES)
    page.goto(f"{url}/tasks", wait_until="commit")
    expect(page.get_by_role("row").nth(5)).to_be_visible()
    page.wait_for_timeout(_SETTLE_MS)
    shown_ms: float = page.evaluate("performance.getEntriesByName('rows')[0].startTime")
    events = json.loads(browser.stop_tracing())["traceEvents"]
    session.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    return max(shown_ms, last_long_task_ms(events, shown_ms))


def first_openings(playwright: Playwright, cookies: StorageState, url: str) -> list[int]:
    """Each continues with the cookie that the one before was given."""
    times: list[float] = []
    for _ in range(5):
        browser = _launch(playwright)
        context = browser.new_context(storage_state=cookies)
        page = context.new_page()
        page.add_init_script(_NOTE_ROWS)
        times.append(interactive(browser, page, url))
        cookies = context.storage_state()
        browser.close()
    return sorted(map(round, times))


def _launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=chromium(), chromium_sandbox=False)


def last_long_task_ms(events: list[dict[str, Any]], shown_ms: float) -> float:
    """When the last long task of the page's main thread was over, after its navigation."""
    mark = max((each for each in events if each["name"] == "rows"), key=lambda each: each["ts"])
    start = mark["ts"] - shown_ms * 1000
    ends = [
        each["ts"] + each["dur"] - start
        for each in events
        if each["name"] == "RunTask"
        and (each["pid"], each["tid"]) == (mark["pid"], mark["tid"])
        and each.get("dur", 0) > _LONG_MICROSECONDS  # none: cut off by the end of the trace
    ]
    return max(ends, default=0) / 1000


def scroll(browser: Browser, page: Page, last: str | None) -> dict[str, Any]:
    browser.start_tracing(page=page, categories=_CATEGORIES)
    figures = scroll_to_end(page, last)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    main = {(each["pid"], each["tid"]) for each in events if each["name"] == "EventDispatch"}
    needed = [
        each.get("tdur", 0)  # none: cut off by the end of the trace
        for each in events
        if each["name"] == "RunTask" and (each["pid"], each["tid"]) in main
    ]
    return {**figures, "longest_cpu_ms": round(max(needed) / 1000), "heap_mb": heap_mb(page)}


def idle_requests(page: Page, url: str, path: str, seconds: int) -> int:
    page.goto(url + path)
    expect(page.locator("[data-live=live]")).to_be_attached()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)
    page.wait_for_timeout(3_000)  # until what the page asks for at its start is there
    seen: list[str] = []
    page.on("request", lambda request: seen.append(request.url))
    page.wait_for_timeout(1000 * seconds)
    return len(seen)


def measure(tasks: int, devices: int, seconds: int) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with ExitStack() as stack:
        stack.callback(SHARED.close)
        stack.callback(CLUSTERS.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(
            ServerProcess(directory, POTLUCK_DASHBOARD_DIRECTORY=str(BUILD))
        )
        owner = Wallet("has many tasks")
        add_tasks(server, owner, tasks)
        add_devices(server, devices)
        playwright = stack.enter_context(sync_playwright())
        browser = _launch(playwright)
        stack.callback(browser.close)
        expect.set_options(timeout=60_000)
        with WatchedPage(browser) as page:
            figures["script_bytes"] = loaded_script(page, server.url)
        with WatchedPage(browser) as page:
            dashboard = DashboardPage(page, server.url)
            dashboard.sign_in(owner)
            page.add_init_script(_NOTE_ROWS)
            times = [interactive(browser, page, server.url) for _ in range(5)]
            figures["interactive_ms"] = sorted(map(round, times))
            dashboard.open("/tasks")
            figures["tasks"] = scroll(browser, page, "task 0")
            cookies = page.context.storage_state()
            figures["interactive_first_ms"] = first_openings(playwright, cookies, server.url)
        with WatchedPage(browser) as page:
            dashboard = DashboardPage(page, server.url)
            dashboard.sign_in(server.wallet)
            dashboard.open("/market?kind=gpu")
            figures["devices"] = scroll(browser, page, None)
            figures["idle_requests"] = {
                path: idle_requests(page, server.url, path, seconds) for path in _IDLE_PAGES
            }
    figures["load"] = round(os.getloadavg()[0], 1)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--devices", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=60, help="of an idle page")
    given = parser.parse_args()
    subprocess.run([sys.executable, "-m", "scripts.web"], cwd=ROOT, check=True, stdout=sys.stderr)
    print(json.dumps(measure(given.tasks, given.devices, given.seconds), indent=2))


if __name__ == "__main__":
    main()
