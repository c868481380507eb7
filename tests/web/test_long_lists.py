"""10,000 tasks and 5,000 devices: a few dozen rows are in the page, however far one scrolls.

How long script tasks take is measured by `make bench-dashboard`: it depends on the machine.
"""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.processes import ServerProcess
from tests.wallets import Wallet
from tests.web.dashboard_page import DashboardPage
from tests.web.long_lists import add_devices, add_tasks, heap_mb, scroll_to_end

_MOST_ROWS = 80
_MOST_HEAP_MB = 150


@pytest.mark.parametrize("count", [750, pytest.param(10_000, marks=pytest.mark.long)])
def test_many_tasks_scroll(dashboard: DashboardPage, server: ServerProcess, count: int) -> None:
    wallet = Wallet(f"has {count} tasks")
    add_tasks(server, wallet, count)
    dashboard.sign_in(wallet)
    dashboard.open("/tasks")
    check(dashboard.page, scroll_to_end(dashboard.page, "task 0"))


@pytest.mark.long
def test_many_devices_scroll(dashboard: DashboardPage, server: ServerProcess) -> None:
    add_devices(server, 5_000)
    dashboard.sign_in(server.wallet)
    dashboard.open("/market?kind=gpu")
    check(dashboard.page, scroll_to_end(dashboard.page, None))


def check(page: Page, figures: dict[str, Any]) -> None:
    assert figures["rows"] <= _MOST_ROWS, figures
    assert heap_mb(page) < _MOST_HEAP_MB
