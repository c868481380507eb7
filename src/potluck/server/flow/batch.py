"""A batch in one transaction, and what that leaves undone one by one: none fails for another."""

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import TypeVar

import structlog

from potluck.model.error import PotluckError

log = structlog.get_logger()

M = TypeVar("M", bound=Hashable)
A = TypeVar("A")
Errors = type[Exception] | tuple[type[Exception], ...]
Batch = Callable[[Sequence[M]], Awaitable[Mapping[M, A]]]


async def try_batch_then_each(
    members: Sequence[M],
    batch: Batch[M, A],
    each: Callable[[M], Awaitable[A]] | None = None,
    *,
    catch: Errors = Exception,
    but: Errors = (),
) -> dict[M, A]:
    """The answer for each member: from the batch if that has one, else from a try of its own.

    A batch that raises what is caught, and is none of `but`, has answered nobody. Without `each` a
    member is tried as a batch of one, and has no answer if that fails: it is logged.
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
    for one in members:
        if one not in answers:
            answers |= {one: await each(one)} if each else await _alone(one, batch, catch, but)
    return answers


async def _alone(one: M, batch: Batch[M, A], catch: Errors, but: Errors) -> Mapping[M, A]:
    try:
        return await batch([one])
    except but:
        raise
    except catch:
        log.exception("one of a batch failed", member=one)
        return {}
