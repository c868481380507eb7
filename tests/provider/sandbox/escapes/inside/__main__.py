"""Makes every attempt in turn and says what came of it, one JSON line each."""

import json
import sys

from tests.provider.sandbox.escapes.inside import (
    devices,
    files,
    kernel,
    namespaces,
    network,
    privileges,
    processes,
    system,
)
from tests.provider.sandbox.escapes.inside.attempt import PROBES, make
from tests.provider.sandbox.escapes.inside.bait import Bait

# Each adds its probes when it is imported.
SUBJECTS = (files, processes, kernel, namespaces, devices, network, privileges, system)


def main(word: str) -> None:
    bait = Bait.from_word(word)
    for probe in PROBES:
        outcome = make(probe.attempt, bait)
        line = {"name": probe.name, "tries": probe.tries, "state": outcome.state}
        print(json.dumps({**line, "how": outcome.how}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
