"""How soon each alert arrives after its fault has really happened, as a table: `make bench-alerts`.

Durations and intervals are tenths of seconds; `tests/end_to_end/alert_faults.py` has them and the
faults. Needs what the tests need.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.databases import SHARED
from tests.end_to_end.alert_faults import FAULTS, WatchedPool, cause


def main() -> None:
    with ExitStack() as stack:
        stack.callback(SHARED.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(SHARED.get().fresh())
        pool = WatchedPool(directory, url, stack)
        print("| alert | how the fault was caused | seconds to the message |")
        print("|---|---|---|")
        for name, fault in FAULTS.items():
            fired = cause(pool, name)
            print(f"| {name} | {fault.how} | {fired.seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
