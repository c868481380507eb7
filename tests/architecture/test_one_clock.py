"""The server has one time, the database's: what reads the machine's clock is named here."""

import ast
from pathlib import Path

from tests.architecture.repository_files import SOURCE

MACHINE_CLOCK = {
    *("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"),
    *("date.today", "datetime.datetime.now", "datetime.datetime.utcnow", "datetime.date.today"),
}
EXPECTED = {
    "server/database_clock.py": "compares it with the database's",
    "server/http/authority.py": "certificates are made before there is a database, for a year",
    "store/new_ids.py": "ids outside of a server; a server's come from the database's clock",
}


def reads_machine_clock(path: Path) -> bool:
    names = {
        ast.unparse(node)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
    }
    return bool(names & MACHINE_CLOCK)


def test_only_these_read_the_machines_clock() -> None:
    paths = [path for part in ("server", "store", "live") for path in (SOURCE / part).rglob("*.py")]
    clock_readers = {
        path.relative_to(SOURCE).as_posix() for path in paths if reads_machine_clock(path)
    }
    assert clock_readers == set(EXPECTED), "take `services.clock.now()`, or `now()` of the database"
