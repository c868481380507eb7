"""Why a line stands still."""

from enum import Enum


class Halt(Enum):
    """What keeps a line from moving, and so what must happen before it is looked at again."""

    NONE = "none"  # nothing: it is looked at in the next round
    ROOM = "room"  # no node has room for it: until some node gains some
    KEPT = "kept"  # the room there is is kept for others: until there is more, or they are served
    CREDIT = "credit"  # the account can not pay: until it has more, or something cheaper is free
    QUOTA = "quota"  # the account runs as much as it may: until something of it ends
