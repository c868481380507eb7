"""The names that programs may rely on; removing one breaks somebody."""

import subprocess
import sys

import potluck
import potluck.consumer


def test_the_names_of_the_consumer_are_pinned() -> None:
    assert potluck.consumer.__all__ == ["Follow", "Patience", "Potluck", "Result"]
    assert all(hasattr(potluck.consumer, name) for name in potluck.consumer.__all__)


def test_the_client_is_found_at_the_top() -> None:
    assert potluck.Potluck is potluck.consumer.Potluck


def test_the_names_at_the_top_are_pinned() -> None:
    assert potluck.__all__ == [
        "Executor",
        "Potluck",
        "PotluckError",
        "RemoteError",
        "RemoteFunction",
        "TaskFailed",
        "TaskFuture",
        "TaskMap",
        "UntrustedResult",
        "__version__",
        "aio",
        "flush",
        "task",
    ]
    assert all(hasattr(potluck, name) for name in potluck.__all__)


def test_the_options_of_a_task_are_pinned() -> None:
    from potluck.consumer.functions.options import Wishes

    assert sorted(Wishes.__annotations__) == [
        "allow_pickle",
        "client",
        "cores",
        "dependencies",
        "disk",
        "environment",
        "files",
        "folder",
        "from_wallets",
        "gpu",
        "labels",
        "max_price",
        "max_result",
        "memory",
        "name",
        "owners",
        "priority",
        "progress",
        "ram",
        "retries",
        "secrets",
        "secrets_to_strangers",
        "timeout",
        "trust",
    ]


def test_importing_potluck_is_light() -> None:
    check = "import sys, potluck; print({'urllib3', 'msgspec', 'typer', 'rich'} & {*sys.modules})"
    command = [sys.executable, "-c", check]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"
