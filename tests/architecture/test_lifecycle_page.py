"""Every member of every enum is told in words: docs/lifecycle.md changes with the code."""

import re
from enum import StrEnum

import pytest

from potluck.decide.lifecycle import ATTEMPT_TRANSITIONS, TASK_TRANSITIONS
from potluck.decide.payouts.outbox import TRANSACTION_TRANSITIONS
from potluck.decide.pool.feasibility import Refusal
from potluck.model.account import Credential, Registration, Role, Scope
from potluck.model.alert import AlertAudience, AlertName, AlertSeverity, AlertState
from potluck.model.audit import AuditKind
from potluck.model.credit import EntryKind, Purse, RewardsTo
from potluck.model.device import Availability, DeviceKind, Health, Standing
from potluck.model.event import EventKind
from potluck.model.lease import AttemptState
from potluck.model.node import NodeState, SandboxStrength
from potluck.model.payout import RootState, TransactionKind, TransactionState
from potluck.model.task import EndReason, TaskState
from potluck.model.terms import Order, TaskKind
from potluck.model.webhook import DeliveryState, PauseReason
from tests.architecture.repository_files import DOCS, SOURCE

LIFECYCLE = DOCS / "lifecycle.md"
ENUMS: list[type[StrEnum]] = [
    *(
        TaskState,
        AttemptState,
        EndReason,
        EntryKind,
        Purse,
        RewardsTo,
        RootState,
        TransactionKind,
        TransactionState,
        EventKind,
        NodeState,
        DeviceKind,
    ),
    *(Refusal, SandboxStrength, Standing, Role, Registration, Credential, Scope, AuditKind),
    *(Availability, Health, TaskKind, Order, PauseReason, DeliveryState),
    *(AlertName, AlertSeverity, AlertState, AlertAudience),
]


def rows(heading: str) -> dict[str, list[str]]:
    """The table below a heading: the word in the first column, and the other columns."""
    sections = re.split(r"^#+ ", LIFECYCLE.read_text(), flags=re.MULTILINE)
    (section,) = [part for part in sections if re.match(rf"[^\n]*`{heading}`\n", part)]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in cells}


@pytest.mark.parametrize("enum", ENUMS, ids=lambda enum: enum.__name__)
def test_every_member_has_its_row_and_its_sentence(enum: type[StrEnum]) -> None:
    table = rows(enum.__name__)
    assert list(table) == [member.value for member in enum], (
        f"docs/lifecycle.md and {enum.__name__} differ; a row for each member, in its order"
    )
    assert all(cells[-1].endswith(".") for cells in table.values()), "a sentence ends with a stop"


@pytest.mark.parametrize(
    "transitions", [TASK_TRANSITIONS, ATTEMPT_TRANSITIONS, TRANSACTION_TRANSITIONS]
)
def test_the_transitions_are_those_of_the_code(
    transitions: dict[StrEnum, frozenset[StrEnum]],
) -> None:
    table = rows(type(next(iter(transitions))).__name__)
    for state, targets in transitions.items():
        documented = set(re.findall(r"`(\w+)`", table[state.value][0]))
        assert documented == {target.value for target in targets}, f"after {state}"


def test_no_enum_of_the_model_is_forgotten() -> None:
    declared = {
        name
        for path in (SOURCE / "model").glob("*.py")
        for name in re.findall(r"^class (\w+)\(StrEnum\)", path.read_text(), re.MULTILINE)
    }
    assert declared <= {enum.__name__ for enum in ENUMS}, "tell it in docs/lifecycle.md, and here"


@pytest.mark.parametrize(
    "word",
    [
        *("account", "node", "device", "task", "attempt", "lease", "term", "blob", "event"),
        *("hold", "charge", "reward", "refund", "grant", "credit", "sandbox", "environment"),
        *(
            "operator",
            "consumer",
            "provider",
            "profile",
            "token",
            "wallet",
            "session",
            "journal",
            "outbox",
            "log piece",
        ),
    ],
)
def test_the_words_of_the_trade_are_in_the_glossary(word: str) -> None:
    assert f"**{word}**" in (DOCS / "glossary.md").read_text(), f"say what {word!r} means"
