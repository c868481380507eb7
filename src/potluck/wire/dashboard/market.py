"""The market: what the pool offers, by model."""

from datetime import datetime

from msgspec import Struct

from potluck.model.market import ModelOffer


class MarketView(Struct, frozen=True):
    """Most devices first. Further models, and waiting tasks beyond a limit, are not counted."""

    models: list[ModelOffer]
    waiting_tasks: int
    counted_tasks: int
    at: datetime
