"""An ordinary user, for the tests that run as root and should show that root is not needed."""

import os
import sys
from pathlib import Path

import pytest

NOBODY = 65534


def need_ordinary_user() -> None:
    """Skips where root could become nobody, who then could not start this Python."""
    if os.geteuid() == 0 and (shut := _shut_directories()):
        pytest.skip(f"an ordinary user may not enter {shut[0]}, which holds Python or the tests")


def _shut_directories() -> list[Path]:
    executable = Path(sys.executable)  # a link in .venv; the Python that it means is elsewhere
    used = (executable, executable.resolve(), Path(__file__).resolve())
    directories = {directory for path in used for directory in path.parents}
    return sorted(
        directory for directory in directories if directory.stat().st_mode & 0o005 != 0o005
    )
