"""`python -m tests.simulate.run`: the proof of the model at length, or planted faults; as JSON.

python -m tests.simulate.run --histories 1000
python -m tests.simulate.run --plant "no fencing"
python -m tests.simulate.run --plant all
"""

import argparse
import asyncio
import json
import sys
import time

import structlog

from tests.databases import embedded_databases
from tests.simulate.clocked import clocked_database
from tests.simulate.plants import PLANTS, find
from tests.simulate.prove import prove


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--histories", type=int, default=300)
    options.add_argument("--first", type=int, default=0, help="the first seed")
    options.add_argument("--steps", type=int, default=30)
    options.add_argument("--together", type=int, default=6)
    options.add_argument("--plant", help="the name of a planted fault, or all")
    chosen = options.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    with embedded_databases() as databases, clocked_database(databases.server_url) as url:
        if chosen.plant:
            _plant(chosen.plant, url)
        else:
            _prove(url, chosen)


def _prove(url: str, chosen: argparse.Namespace) -> None:
    begun = time.monotonic()
    seeds = range(chosen.first, chosen.first + chosen.histories)
    done = asyncio.run(prove(url, seeds, chosen.steps, chosen.together))
    told = {
        "histories": done.histories,
        "steps": done.steps,
        "at_once": done.together,
        "refused": done.refused,
        "verbs": dict(done.verbs.most_common()),
        "seconds": round(time.monotonic() - begun, 1),
    }
    print(json.dumps(told))


def _plant(name: str, url: str) -> None:
    for plant in PLANTS:
        if name in ("all", plant.name):
            found = find(plant, url)
            told = {"plant": plant.name, "is_found": found is not None}
            if found is not None:
                told |= {"seconds": found.seconds, "histories": found.histories}
                told |= {"difference": found.difference}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
