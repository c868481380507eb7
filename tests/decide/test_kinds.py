"""Of each kind of task: what may enter the queue, and what is asked for without being said."""

from typing import Any

import pytest

from potluck.decide.admission import admit
from potluck.decide.derived_requirements import derive_requirements
from potluck.model.blob import BlobRef, NamedFile, Value
from potluck.model.error import InvalidInput
from potluck.model.task import Requirements, TaskRequest
from potluck.model.task_spec import CommandSpec, ContainerSpec, FunctionSpec, ScriptSpec, TaskSpec

BLOB = BlobRef("0" * 64, 1)
ME, FRIEND, OTHER = (f"0x{digit * 40}" for digit in "a1F")


def files(*paths: str) -> tuple[NamedFile, ...]:
    return tuple(NamedFile(path, BLOB) for path in paths)


def function(**changes: Any) -> FunctionSpec:
    fields: dict[str, Any] = {"code": Value(b"code"), "inputs": Value(b""), **changes}
    return FunctionSpec("double", python="3.11", **fields)


REFUSED: list[tuple[TaskSpec, str]] = [
    (ScriptSpec("a.py", "", files=files("a.py")), "reserved for the task's own 'a.py'"),
    (ScriptSpec("src/a.py", ""), "'src/a.py' is a path"),
    (ScriptSpec("src/../../a.py", "", folder=BLOB), "is a path"),
    (ScriptSpec("/a.py", "", folder=BLOB), "is a path"),
    (ScriptSpec("s/a.py", "", folder=BLOB, files=files("s/a.py")), "the task's own 's/a.py'"),
    (ScriptSpec("a.py", "", files=files("x", "x")), "'x' appears twice"),
    (
        CommandSpec(("ls",), files=files("x/y/z", "x/y")),
        "'x/y' is a file, so it cannot contain 'x/y/z'",
    ),
    (CommandSpec(("ls",), files=files("output/x")), "the task's own 'output'"),
    (ContainerSpec("busybox", files=files("checkpoint")), "the task's own 'checkpoint'"),
    (ContainerSpec("busybox", files=files("a/" + "ä" * 128)), "longer than 255 bytes"),
    (CommandSpec(("",)), "command is empty"),
    (function(code=Value()), "has no code"),
    (function(code=Value(b"x", BLOB)), "`code` is both data and a blob"),
    (function(inputs=Value(b"x", BLOB)), "`inputs` is both data and a blob"),
    (function(dependencies=("x @ https://example.org/x.whl",)), "not a plain requirement"),
    (function(dependencies=tuple(f"p{n}" for n in range(201))), "201 dependencies"),
]


@pytest.mark.parametrize(("spec", "sentence"), REFUSED, ids=[row[1] for row in REFUSED])
def test_unrunnable_tasks_are_refused(spec: TaskSpec, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error_info:
        admit(TaskRequest(spec), 0, None, 60)
    assert error_info.value.hint


@pytest.mark.parametrize(
    "spec",
    [
        ScriptSpec("a.py", "", files=files("b.py", "data/a.py", "data/b"), folder=BLOB),
        ScriptSpec("src/a.py", "", folder=BLOB, files=files("src/b")),
        CommandSpec(("nvidia-smi", "-L"), files=files("outputs/x")),
        ContainerSpec("registry.example.org/team/image:1@sha256"),
        function(code=Value(blob=BLOB), inputs=Value(blob=BLOB), dependencies=("numpy>=2",)),
    ],
)
def test_each_kind_is_let_in(spec: TaskSpec) -> None:
    admit(TaskRequest(spec), 0, None, 60)


def owners(**changes: Any) -> tuple[str, ...]:
    requirements = Requirements(owners=changes.pop("owners", ()))
    return derive_requirements(
        TaskRequest(CommandSpec(("ls",)), requirements=requirements, **changes), ME
    ).owners


def test_secrets_are_sent_to_own_nodes_and_those_of_trusted_wallets() -> None:
    secret = {"TOKEN": "x"}
    assert owners(secrets=secret) == (ME,)
    assert owners(secrets=secret, trust=(FRIEND, FRIEND.upper().replace("X", "x"))) == (FRIEND, ME)
    assert owners(secrets=secret, secrets_to_strangers=True) == ()
    assert owners(trust=(FRIEND,)) == (), "without secrets nothing is kept from anybody"


def test_secrets_restrict_the_requested_owners_to_trusted_ones() -> None:
    secret = {"TOKEN": "x"}
    assert owners(owners=(OTHER,)) == (OTHER.lower(),)
    assert owners(owners=(OTHER, FRIEND), secrets=secret, trust=(FRIEND,)) == (FRIEND,)
    assert owners(owners=(OTHER,), secrets=secret, secrets_to_strangers=True) == (OTHER.lower(),)
    with pytest.raises(InvalidInput, match="trusts none of the owners"):
        owners(owners=(OTHER,), secrets=secret)


def test_few_wallets_are_named() -> None:
    many_wallets = tuple(f"0x{number:040x}" for number in range(101))
    for changes in ({"owners": many_wallets}, {"trust": many_wallets, "secrets": {"A": "b"}}):
        with pytest.raises(InvalidInput, match="more than 100 wallets"):
            owners(**changes)


def test_a_variable_is_a_secret_or_not() -> None:
    request = TaskRequest(CommandSpec(("ls",), {"TOKEN": "y"}), secrets={"TOKEN": "x"})
    with pytest.raises(InvalidInput, match="TOKEN is both a secret and an ordinary variable"):
        derive_requirements(request, ME)


def test_secrets_are_no_way_to_send_files() -> None:
    secrets = {"A": "x" * 32_768, "B": "y" * 32_768}
    assert owners(secrets=secrets) == (ME,)
    with pytest.raises(InvalidInput, match=r"exceed 65,536 characters"):
        owners(secrets={**secrets, "C": "z"})


def test_a_function_wants_the_python_that_pickled_it() -> None:
    assert derive_requirements(TaskRequest(function()), ME).python == "3.11"
    assert derive_requirements(TaskRequest(ScriptSpec("a.py", "")), ME).python is None
    other = TaskRequest(function(), requirements=Requirements(python="3.12"))
    with pytest.raises(InvalidInput, match=r"pickled by Python 3\.11 but requires Python 3\.12"):
        derive_requirements(other, ME)
    odd = TaskRequest(ScriptSpec("a.py", ""), requirements=Requirements(python="3.11.2"))
    with pytest.raises(InvalidInput, match="is not a version specifier"):
        derive_requirements(odd, ME)


@pytest.mark.parametrize(
    ("block", "requested", "derived"),
    [
        (">=3.12", None, ">=3.12"),
        (">=3.12", ">=3.12", ">=3.12"),  # the derived requirement of a retried task
        (">=3.10", "3.11", "==3.11.*,>=3.10"),
        (None, "3.11", "==3.11.*"),
    ],
)
def test_a_script_requires_the_python_of_its_block(
    block: str | None, requested: str | None, derived: str
) -> None:
    lines = "" if block is None else f'# /// script\n# requires-python = "{block}"\n# ///\n'
    request = TaskRequest(ScriptSpec("a.py", lines), requirements=Requirements(python=requested))
    assert derive_requirements(request, ME).python == derived
