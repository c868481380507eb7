"""Takes the pictures of the dashboard for README.md and docs/dashboard.md anew.

    make captures ARGS=dashboard

In Chromium, without a window, on the real pool of `lively_pool.py`.
"""

import base64
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.captures.lively_pool import LivelyPool, lively_pool
from tests.web.conftest import ROOT, WatchedPage, chromium
from tests.web.dashboard_page import DashboardPage

QUALITY = 0.92
# A canvas of Chromium writes WebP, so that nothing else is needed for it.
_ENCODE = """
async ([png, quality]) => {
  const image = new Image();
  image.src = `data:image/png;base64,${png}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [image.width, image.height];
  canvas.getContext("2d").drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality).split(",")[1];
}
"""


def take_dashboard(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "scripts.web"], cwd=ROOT, check=True)
    expect.set_options(timeout=60_000)
    with lively_pool() as pool, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), chromium_sandbox=False)
        for name, is_dark in (("task", False), ("tasks", False), ("machine", True)):
            with WatchedPage(browser, is_dark=is_dark) as page:
                _show(page, pool, name)
                _save(page, folder / f"dashboard-{name}.webp")
        with WatchedPage(browser) as page:
            _show(page, pool, "health")
            _save(page, folder / "dashboard-health.webp")
        browser.close()


def _show(page: Page, pool: LivelyPool, name: str) -> None:
    dashboard = DashboardPage(page, pool.server.url)
    dashboard.sign_in(pool.server.wallet)
    if name == "task":
        task_id = pool.tasks["mandelbrot"]
        pool.server.client().finished(task_id, 300)
        dashboard.open(f"/tasks/{task_id}?tab=files")
        expect(page.get_by_role("img", name="mandelbrot.png")).to_be_visible()
    elif name == "tasks":
        dashboard.open("/tasks")
        expect(page.get_by_role("row").nth(8)).to_be_visible()
    elif name == "machine":
        dashboard.open(f"/machines/{pool.studio}")
        expect(page.get_by_role("img", name="Power").first).to_be_visible()
    else:
        dashboard.open("/operator")
        expect(page.get_by_role("img", name="tasks succeeded")).to_be_visible()
        expect(page.get_by_label("Events").get_by_role("listitem").first).to_be_visible()
    expect(page.get_by_role("status", name="Loading")).to_have_count(0)


def _save(page: Page, path: Path) -> None:
    png = base64.b64encode(page.screenshot()).decode()
    # The page's own policy allows no such picture; an empty page has none.
    empty = page.context.browser
    assert empty is not None
    with WatchedPage(empty) as other:
        path.write_bytes(base64.b64decode(other.evaluate(_ENCODE, [png, QUALITY])))
