"""The input of one item of an array, besides its number."""

from msgspec import Struct

from potluck.model.task_spec import Arguments, Variables

# The sandbox gets it in one message.
MOST_ITEM_BYTES = 65_536


class ItemInputs(Struct, frozen=True, omit_defaults=True):
    """Variables take precedence over those of the task. Arguments replace those of the task; for a
    command or an image they replace the whole command line."""

    environment: Variables = {}
    arguments: Arguments | None = None
