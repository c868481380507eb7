"""Help and the quick commands answer at once: what is slow to import waits until it is needed."""

import subprocess
import sys

HEAVY = (
    *("aiohttp", "asyncpg", "litestar", "psutil", "pynvml", "rich", "structlog", "tomlkit"),
    *("urllib3", "uvloop"),
)


def test_the_program_loads_nothing_heavy() -> None:
    check = f"import sys, potluck.cli.main; print({{*sys.modules}} & {{*{HEAVY}}})"
    shown = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "set()\n"
