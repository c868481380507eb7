"""What one item of an array is given, besides its number."""

from msgspec import Struct

from potluck.model.task_spec import Arguments, Variables

# As it is told inside the sandbox, in one message.
MOST_ITEM_BYTES = 65_536


class ItemInputs(Struct, frozen=True, omit_defaults=True):
    """Its variables stand before those of the task, its arguments in the place of the task's: of a
    command, and of an image, all words of it."""

    environment: Variables = {}
    arguments: Arguments | None = None
