"""The names that programs may rely on; removing one breaks somebody."""

import subprocess
import sys

import potluck
import potluck.consumer


def test_the_names_of_the_consumer_are_pinned() -> None:
    assert potluck.consumer.__all__ == ["Follow", "Patience", "Potluck"]
    assert all(hasattr(potluck.consumer, name) for name in potluck.consumer.__all__)


def test_the_client_is_found_at_the_top() -> None:
    assert potluck.Potluck is potluck.consumer.Potluck
    assert potluck.__all__ == ["Potluck", "__version__"]


def test_importing_potluck_is_light() -> None:
    check = "import sys, potluck; print({'urllib3', 'msgspec', 'typer', 'rich'} & {*sys.modules})"
    command = [sys.executable, "-c", check]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"
