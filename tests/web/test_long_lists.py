"""10,000 tasks and 5,000 devices: a few dozen rows are in the page, however far one scrolls."""

import json
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page, expect

from tests.processes import ServerProcess
from tests.wallets import Wallet
from tests.web.dashboard_page import DashboardPage

pytestmark = pytest.mark.long

TASKS, DEVICES = 10_000, 5_000
_AT_ONCE, _OF_A_NODE = 250, 50
_MOST_ROWS = 80
_MOST_HEAP_BYTES = 150 * 2**20
# Notes the longest task of the page's script; a figure to read, since it depends on the machine.
_WATCH = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({ entryTypes: ["longtask"] });
"""


def test_ten_thousand_tasks_scroll(dashboard: DashboardPage, server: ServerProcess) -> None:
    wallet = Wallet("has many tasks")
    api = server.client(server.sign_in(wallet))
    spec = {"kind": "script", "filename": "many.py", "source": "print()"}
    task = {"spec": spec, "requirements": {"device_kind": "gpu"}}
    for start in range(0, TASKS, _AT_ONCE):
        named = [{**task, "name": f"task {start + number}"} for number in range(_AT_ONCE)]
        answer = api.post("/v1/tasks/batch", {"tasks": named})
        assert all(each["task_id"] for each in answer["tasks"]), answer
    dashboard.sign_in(wallet)
    dashboard.open("/tasks")
    scroll(dashboard.page, "task 0")


def test_five_thousand_devices_scroll(dashboard: DashboardPage, server: ServerProcess) -> None:
    for number in range(DEVICES // _OF_A_NODE):
        register(server, number)
    dashboard.sign_in(server.wallet)
    dashboard.open("/market?kind=gpu")
    scroll(dashboard.page, None)


def register(server: ServerProcess, number: int) -> None:
    name = f"node key {number}"
    key, node = Wallet(name), server.node(name)
    devices = [
        {
            "kind": "gpu",
            "uuid": f"GPU-{number}-{device}",
            "vendor": "NVIDIA",
            "model": f"NVIDIA RTX {4000 + device % 7}",
            "memory_bytes": 2**34,
            "terms": {"price_micro_per_hour": 10_000 * (device + 1)},
        }
        for device in range(_OF_A_NODE)
    ]
    description = {
        "name": f"node {number}",
        "platform": "Linux",
        "python_version": "3.11.2",
        "potluck_version": "0.2.0",
        "cores": 64,
        "memory_bytes": 2**40,
        "disk_bytes": 2**40,
        "sandbox": {"driver": "bwrap", "memory": "cgroup v2", "processes": "cgroup v2"},
        "devices": devices,
    }
    statements = [key.state(server.url, str(device["uuid"])) for device in devices]
    answer = node.post("/v1/nodes", {"description": description, "statements": statements})
    assert "node_id" in answer, answer


def scroll(page: Page, last: str | None) -> None:
    """To the end of the list, which is loaded on the way."""
    page.evaluate(_WATCH)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    more = page.get_by_role("button", name="Load more").or_(
        page.get_by_role("button", name="Loading more …")
    )
    expect(page.get_by_role("row").nth(5)).to_be_visible()
    most_rows = 0
    while more.count() > 0:
        page.mouse.wheel(0, 5_000)
        most_rows = max(most_rows, page.get_by_role("row").count())
    if last is not None:
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        expect(page.get_by_role("link", name=last, exact=True)).to_be_visible()
    heap = heap_bytes(session)
    figures = {"rows": most_rows, "heap_mb": heap // 2**20, "longest_ms": longest(page)}
    print(json.dumps(figures))
    assert most_rows <= _MOST_ROWS
    assert heap < _MOST_HEAP_BYTES


def heap_bytes(session: CDPSession) -> int:
    session.send("HeapProfiler.collectGarbage")
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return int(next(each["value"] for each in metrics if each["name"] == "JSHeapUsedSize"))


def longest(page: Page) -> float:
    found: float = page.evaluate("window.longest")
    return found
