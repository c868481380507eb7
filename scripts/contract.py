"""Compiles the contract, so that using it needs no compiler: `make contract`."""

import json
from pathlib import Path
from typing import Any

from vyper import compile_code
from vyper.compiler.settings import OptimizationLevel, Settings

FOLDER = Path(__file__).parents[1] / "src/potluck/chain/contract"
SOURCE, COMPILED = FOLDER / "rewards.vy", FOLDER / "rewards.json"
# The oldest rules that most chains have: a newer instruction fails on the others.
_EVM_VERSION = "shanghai"


def compile_contract(source: Path = SOURCE) -> dict[str, Any]:
    settings = Settings(evm_version=_EVM_VERSION, optimize=OptimizationLevel.GAS)
    made = compile_code(source.read_text(), output_formats=["abi", "bytecode"], settings=settings)
    return {"abi": made["abi"], "bytecode": made["bytecode"]}


def render(compiled: dict[str, Any]) -> str:
    return json.dumps(compiled, indent=1) + "\n"


if __name__ == "__main__":
    COMPILED.write_text(render(compile_contract()))
