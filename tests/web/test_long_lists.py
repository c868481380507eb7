"""10,000 tasks and 5,000 devices: a few dozen rows are in the page, however far one scrolls.

How long script tasks take is measured by `make bench-dashboard`: it depends on the machine.
"""

from typing import Any

import pytest

from tests.processes import ServerProcess
from tests.wallets import Wallet
from tests.web.dashboard_page import DashboardPage
from tests.web.long_lists import add_devices, add_tasks, scroll_to_end

_MOST_ROWS = 80
_MOST_HEAP_MB = 150


@pytest.mark.long
@pytest.mark.parametrize("count", [750, 10_000])
def test_many_tasks_scroll(dashboard: DashboardPage, server: ServerProcess, count: int) -> None:
    wallet = Wallet(f"has {count} tasks")
    add_tasks(server, wallet, count)
    dashboard.sign_in(wallet)
    dashboard.open("/tasks")
    check(scroll_to_end(dashboard.page, "task 0"))


@pytest.mark.long
def test_many_devices_scroll(dashboard: DashboardPage, server: ServerProcess) -> None:
    add_devices(server, 5_000)
    dashboard.sign_in(server.wallet)
    dashboard.open("/market?kind=gpu")
    check(scroll_to_end(dashboard.page, None))


def check(figures: dict[str, Any]) -> None:
    assert figures["rows"] <= _MOST_ROWS, figures
    assert figures["heap_mb"] < _MOST_HEAP_MB, figures
