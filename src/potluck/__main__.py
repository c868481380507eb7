"""The `potluck` program, and `python -m potluck`.

The command line is imported here, where Ctrl-C is already expected: it takes a moment.
"""

import os
import sys
from pathlib import Path

INTERRUPTED_STATUS = 130  # as a shell reports SIGINT


def main() -> None:
    if sys.__stdin__ is None:  # it was closed, and a socket would get its number
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115
    try:
        from potluck.cli.main import main as run_command_line

        run_command_line()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED_STATUS)


if __name__ == "__main__":
    main()
