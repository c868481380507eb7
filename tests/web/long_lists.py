"""Lists of thousands on the dashboard: made over the API, scrolled to their end, and measured."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.processes import ServerProcess
from tests.wallets import Wallet

_AT_ONCE, _OF_A_NODE = 250, 50
# Notes the tasks of the page's script over 50 ms, which depend on the machine.
_WATCH = """
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longTasks.push(entry.duration);
}).observe({ entryTypes: ["longtask"] });
"""


def add_tasks(server: ServerProcess, owner: Wallet, count: int) -> None:
    """They wait, named `task 0` and so on."""
    api = server.client(server.sign_in(owner))
    spec = {"kind": "script", "filename": "many.py", "source": "print()"}
    task = {"spec": spec, "requirements": {"device_kind": "gpu", "device_memory_bytes": 2**40}}
    for start in range(0, count, _AT_ONCE):
        requests = [{**task, "name": f"task {start + number}"} for number in range(_AT_ONCE)]
        response = api.post("/v1/tasks/batch", {"tasks": requests})
        assert all(task["task_id"] for task in response["tasks"]), response


def add_devices(server: ServerProcess, count: int) -> None:
    for number in range(count // _OF_A_NODE):
        _register(server, number)


def _register(server: ServerProcess, number: int) -> None:
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
    registration = node.post("/v1/nodes", {"description": description, "statements": statements})
    assert "node_id" in registration, registration


def scroll_to_end(page: Page, last: str | None) -> dict[str, Any]:
    """Loads the list on the way; the most rows that were in the page, and its long tasks."""
    more_button = page.get_by_role("button", name="Load more").or_(
        page.get_by_role("button", name="Loading more …")
    )
    expect(page.get_by_role("row").nth(5)).to_be_visible()
    page.evaluate(_WATCH)
    most_rows = 0
    while more_button.count() > 0:
        page.mouse.wheel(0, 5_000)
        most_rows = max(most_rows, page.get_by_role("row").count())
    if last is not None:
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        expect(page.get_by_role("link", name=last, exact=True)).to_be_visible()
    long_tasks: list[float] = page.evaluate("window.longTasks")
    return {
        "rows": most_rows,
        "longest_ms": round(max(long_tasks, default=0)),
        "over_50_ms": len(long_tasks),
    }


def heap_mb(page: Page) -> int:
    """After a collection, which is a long task of its own."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    session.send("HeapProfiler.collectGarbage")
    metrics: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    used = next(metric["value"] for metric in metrics if metric["name"] == "JSHeapUsedSize")
    return int(used) // 2**20
