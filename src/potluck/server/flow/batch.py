"""Runs a batch in one transaction, and the members it leaves undone one by one, in isolation."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import structlog

from potluck.model.error import PotluckError

log = structlog.get_logger()

_FEW = 20

M = TypeVar("M", bound=Hashable)
A = TypeVar("A")
Errors = type[Exception] | tuple[type[Exception], ...]
Batch = Callable[[Sequence[M]], Awaitable[Mapping[M, A]]]


async def off_loop_if_many(count: int, work: Callable[[], A]) -> A:
    """Runs work for this many members: for more than a few in a thread, so that no other request
    waits for it."""
    return await asyncio.to_thread(work) if count > _FEW else work()


async def try_batch_then_each(
    members: Sequence[M],
    batch: Batch[M, A],
    each: Callable[[M], Awaitable[A]] | None = None,
    *,
    catch: Errors = Exception,
    but: Errors = (),
) -> dict[M, A]:
    """Returns an answer per member: from the batch if it has one, else from a separate try.

    A batch that raises an error in `catch`, but not in `but`, has no answers. Without `each`, a
    member is tried as a batch of one; if that fails, it is logged and has no answer.
    """
    answers: dict[M, A] = {}
    if len(members) > 1 or each is not None:
        try:
            answers |= await batch(members)
        except but:
            raise
        except catch as error:
            if not isinstance(error, PotluckError):
                log.warning("a batch failed; trying one by one", size=len(members), exc_info=True)
    for member in members:
        if member not in answers:
            answers |= (
                {member: await each(member)} if each else await _alone(member, batch, catch, but)
            )
    return answers


async def _alone(member: M, batch: Batch[M, A], catch: Errors, but: Errors) -> Mapping[M, A]:
    try:
        return await batch([member])
    except but:
        raise
    except catch:
        log.exception("a member of a batch failed", member=member)
        return {}
