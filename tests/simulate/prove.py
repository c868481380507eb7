"""Tries histories on both sides: PostgreSQL and the model of it.

A history of one connection must give the same answers and leave the same rows. Of several
connections at once, answers and rows must be those of some order in which one came after the other.
"""

import asyncio
import itertools
import random
import time
from collections import Counter
from datetime import timedelta
from typing import Any

from msgspec import Struct

from tests.simulate.author import Author, Step
from tests.simulate.clocked import ClockedDatabase
from tests.simulate.sides import ModelSide, PostgresSide, told


class Difference(AssertionError):
    """The model is not PostgreSQL."""


class Proof(Struct):
    """What was tried."""

    histories: int = 0
    steps: int = 0
    together: int = 0
    verbs: Counter[str] = Counter()
    refused: int = 0


class Trial:
    """One history."""

    def __init__(self, seed: int, database: ClockedDatabase, proof: Proof) -> None:
        self._seed = seed
        self._model = ModelSide()
        self._postgres = PostgresSide(database)
        self._author = Author(seed, self._model.data)
        self._random = random.Random(seed)
        self._proof = proof
        self._done: list[str] = []

    async def run(self, steps: int, *, together: int) -> None:
        await self._postgres.clocked.empty()
        self._postgres.clocked.now = self._model.data.now
        for step in self._author.beginning():
            await self._one(step)
        for step in self._author.opening():
            await self._one(step)
        for _ in range(steps):
            self._pass()
            await self._one(self._author.next())
        await self._compare_rows()
        for _ in range(together):
            self._pass()
            await self._several()
        self._proof.histories += 1

    def _pass(self) -> None:
        self._model.data.now += timedelta(seconds=self._author.pause_seconds())
        self._postgres.clocked.now = self._model.data.now

    async def _one(self, step: Step) -> None:
        self._count(step)
        self._postgres.raised = self._model.raised = None
        random.seed(step.seed)
        modelled = await self._model.tell(step.act, step.seed)
        random.seed(step.seed)
        answered = await self._postgres.tell(step.act, step.seed)
        self._done.append(f"{step.name} -> {_short(answered)}")
        self._proof.refused += isinstance(answered, str)
        if modelled != answered:
            raise self._difference(
                f"{step.name} answers\n  {answered}\nand the model\n  {modelled}"
            )

    async def _several(self) -> None:
        """At once in PostgreSQL, and in every order in the model."""
        steps = [self._author.next_among_others() for _ in range(self._random.choice([2, 2, 3]))]
        for step in steps:
            self._count(step)
        self._proof.together += 1
        answers = await self._at_once(steps)
        rows = told(await self._postgres.clocked.rows())
        self._done.append(f"at once: {[step.name for step in steps]} -> {_short(answers)}")
        nearest = ""
        for order in itertools.permutations(range(len(steps))):
            self._model.mark()
            modelled = await self._in_order(steps, order)
            differs = _unlike(steps, answers, modelled) or _rows_unlike(
                rows, told(self._model.rows())
            )
            if not differs:
                return
            nearest += f"\n{[steps[place].name for place in order]}: {differs}"
            self._model.go_back()
        raise self._difference(f"no order of these gives what happened:{nearest}")

    async def _at_once(self, steps: list[Step]) -> list[object]:
        """Each holds what it has locked for a moment, so that the others meet it."""
        clocked = self._postgres.clocked

        async def hold() -> None:
            await asyncio.sleep(self._random.choice([0.0, 0.001, 0.003]))

        async def begin(step: Step) -> object:
            await asyncio.sleep(self._random.choice([0.0, 0.0, 0.001, 0.002]))
            return await self._postgres.tell(step.act, step.seed)

        clocked.hold = hold
        try:
            return list(await asyncio.gather(*map(begin, steps)))
        finally:
            clocked.hold = None

    async def _in_order(self, steps: list[Step], order: tuple[int, ...]) -> list[object]:
        answers: list[object] = [None] * len(steps)
        for place in order:
            answers[place] = await self._model.tell(steps[place].act, steps[place].seed)
        return answers

    async def _compare_rows(self) -> None:
        differs = _rows_unlike(told(await self._postgres.clocked.rows()), told(self._model.rows()))
        if differs:
            raise self._difference(differs)

    def _count(self, step: Step) -> None:
        self._proof.steps += 1
        self._proof.verbs[step.name] += 1

    def _difference(self, what: str) -> Difference:
        story = "\n  ".join(self._done[-12:])
        raised = [repr(side.raised) for side in (self._postgres, self._model) if side.raised]
        told = f"{what}\nafter\n  {story}\nraised last: {raised}"
        return Difference(f"history {self._seed}: {told}")


def _unlike(steps: list[Step], answers: list[object], modelled: list[object]) -> str:
    for step, answered, expected in zip(steps, answers, modelled, strict=True):
        if isinstance(answered, str) or isinstance(expected, str):
            is_unlike = answered != expected
        else:
            is_unlike = step.is_exact and answered != expected
        if is_unlike:
            return f"{step.name} answered\n  {answered}\nnot\n  {expected}"
    return ""


def _rows_unlike(rows: dict[str, list[Any]], modelled: dict[str, list[Any]]) -> str:
    for table, found in rows.items():
        if found != modelled[table]:
            return f"{table}: {_first_difference(found, modelled[table])}"
    return ""


def _first_difference(found: list[Any], modelled: list[Any]) -> str:
    if len(found) != len(modelled):
        return f"{len(found)} rows, not {len(modelled)}"
    for row, other in zip(found, modelled, strict=True):
        columns = [name for name in {**row, **other} if row.get(name) != other.get(name)]
        if columns:
            cells = [f"{name} is {row.get(name)}, not {other.get(name)}" for name in columns]
            return f"{row.get('id')}: " + "; ".join(cells)
    return "another order"


def _short(answer: object) -> str:
    text = str(answer)
    return text if len(text) < 160 else f"{text[:160]}…"


# So that a busy machine tries less, and not nothing.
FEWEST = 10


async def prove(
    url: str, seeds: range, steps: int = 30, together: int = 4, seconds: float = 1e9
) -> Proof:
    """All seeds, or as many as there is time for, and a few in any case."""
    database = await ClockedDatabase.open(url)
    proof, until = Proof(verbs=Counter()), time.monotonic() + seconds
    try:
        for seed in seeds:
            await Trial(seed, database, proof).run(steps, together=together)
            if time.monotonic() > until and proof.histories >= FEWEST:
                break
    finally:
        await database.close()
    return proof
