"""`make fuzz`: tens of thousands of requests, right and wrong, to a server of its own.

Prints what came of them as JSON and ends with 1 if anything was a mistake of the server.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.databases import embedded_databases
from tests.fuzz.callers import callers
from tests.fuzz.counts import Counts
from tests.fuzz.fuzz_client import PATIENCE, FuzzClient
from tests.fuzz.handwritten_requests import columns_of, try_by_hand
from tests.fuzz.schema_requests import try_by_schema
from tests.processes import ServerProcess

BY_SCHEMA = 20_000


def fuzz(directory: Path, database_url: str, counts: Counts, by_schema: int, share: float) -> None:
    """`share` of what is written by hand, and at least so many by the schema."""
    with ServerProcess(directory, 0, POTLUCK_DATABASE_URL=database_url, **PATIENCE) as server:
        document = server.client().get("/schema/openapi.json")
        people, asker = callers(server), FuzzClient(server, counts)
        columns = columns_of(database_url)
        try_by_hand(document, people, asker, columns, share, counts.seed)
        try_by_schema(document, people, asker, counts, by_schema)
        asker.close()
        assert server.client().call("GET", "/readyz").status == 200, "it is not ready any more"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by-schema", type=int, default=BY_SCHEMA)
    parser.add_argument("--share", type=float, default=1.0, help="of what is written by hand")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    counts = Counts(options.seed)
    with (
        tempfile.TemporaryDirectory(prefix="potluck-fuzz-") as directory,
        embedded_databases() as databases,
        databases.fresh() as url,
    ):
        fuzz(Path(directory), url, counts, options.by_schema, options.share)
    print(counts.written())
    return 1 if counts.mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
