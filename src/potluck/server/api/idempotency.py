"""The header by which a request that makes something may be sent again."""

from typing import Annotated

from litestar.params import HeaderParameter

from potluck.model.bounded_types import ASCII_PATTERN

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=ASCII_PATTERN,
        required=False,
    ),
]
