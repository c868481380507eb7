"""Imports go one way. `make check` says the same; here it is also shown that it would notice."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.repository_files import ROOT, SOURCE

# A module that must not be, for each contract: where it lies, and what it imports.
OFFENCES = {
    "Imports go one way": ("store/offence.py", "import potluck.server.services"),
    "Provider and consumer see only model": (
        "consumer/offence.py",
        "import potluck.decide.scheduler",
    ),
    "The decisions are pure": ("decide/offence.py", "import time"),
    "The provider's state machine is pure": ("provider/state.py", "import random"),
    "Only assemble names concrete drivers": ("server/flow/offence.py", "import potluck.live.redis"),
    "What every stage is given": ("server/services.py", "import potluck.server.flow.notify.notify"),
}


def lint_imports(place: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    environment = {**os.environ, "PYTHONPATH": str(place / "src")}
    return subprocess.run(
        [program, "--no-cache"], cwd=place, env=environment, capture_output=True, text=True
    )


def test_the_import_contract_holds() -> None:
    process = lint_imports(ROOT)
    assert process.returncode == 0, f"an import goes the wrong way:\n{process.stdout}"


@pytest.fixture(scope="module")
def verdict_on_offences(tmp_path_factory: pytest.TempPathFactory) -> str:
    place = tmp_path_factory.mktemp("offences")
    shutil.copy(ROOT / "pyproject.toml", place)
    copy = shutil.copytree(SOURCE, place / "src" / "potluck")
    for file, statement in OFFENCES.values():
        with (copy / file).open("a") as module:
            module.write(f"\n{statement}\n")
    process = lint_imports(place)
    assert process.returncode != 0
    return process.stdout


@pytest.mark.parametrize("contract", OFFENCES)
def test_a_module_that_breaks_the_contract_is_noticed(
    contract: str, verdict_on_offences: str
) -> None:
    lines = [line for line in verdict_on_offences.splitlines() if line.startswith(contract)]
    assert any(line.endswith("BROKEN") for line in lines), verdict_on_offences


def test_every_contract_has_an_offence_here() -> None:
    contracts = (ROOT / "pyproject.toml").read_text().count("[[tool.importlinter.contracts]]")
    assert contracts == len(OFFENCES), "a contract in pyproject.toml is not proved; add an offence"
