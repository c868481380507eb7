"""A client that a public generator makes from the server's own document, for a test to call."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.conftest import need

_NAME = "generated_potluck"
_PROGRAM = "openapi-python-client"
_PLACE = Path(sys.prefix) / "generator" / "bin"


class Generated:
    """The package, by the names of the document: `api("submit_task")`, `model("TaskRequest")`."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._areas = {
            operation["operationId"]: operation["tags"][0].replace(" ", "_")
            for methods in document["paths"].values()
            for operation in methods.values()
        }

    def api(self, operation: str) -> ModuleType:
        return importlib.import_module(f"{_NAME}.api.{self._areas[operation]}.{operation}")

    def model(self, name: str) -> Any:
        return getattr(importlib.import_module(f"{_NAME}.models"), name)

    @property
    def package(self) -> Any:
        return importlib.import_module(_NAME)

    @property
    def types(self) -> Any:
        return importlib.import_module(f"{_NAME}.types")

    def operations(self) -> list[str]:
        return list(self._areas)


def generate(document: dict[str, Any], directory: Path) -> str:
    """All that the generator says; it fails if it warns of anything, as does the test."""
    if not (_PLACE / _PROGRAM).exists():
        need(f"{_PROGRAM} in {_PLACE.parent} (`make check` brings it)")
    (directory / "openapi.json").write_text(json.dumps(document))
    process = subprocess.run(
        [
            *(str(_PLACE / _PROGRAM), "generate", "--path", "openapi.json", "--meta", "none"),
            *("--output-path", _NAME, "--fail-on-warning"),
        ],
        cwd=directory,
        env={**os.environ, "PATH": f"{_PLACE}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    output = process.stdout + process.stderr
    assert process.returncode == 0 and "WARNING" not in output.upper(), output
    return output


@contextmanager
def imported(document: dict[str, Any], directory: Path) -> Iterator[Generated]:
    sys.path.insert(0, str(directory))
    try:
        yield Generated(document)
    finally:
        sys.path.remove(str(directory))
        for name in [module for module in sys.modules if module.partition(".")[0] == _NAME]:
            del sys.modules[name]
