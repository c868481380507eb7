"""Why a line stands still."""

from enum import Enum


class Halt(Enum):
    """What keeps a line from moving, and so what must happen before it is looked at again."""

    NONE = "none"  # nothing: it is looked at in the next round
    ROOM = "room"  # no node has room for it: until some node gains some
    KEPT = "kept"  # the room there is is kept for others: until there is more, or they are served
    SLOW = "slow"  # of an array: who has room would hold its end up: until there is more
    CREDIT = "credit"  # the account can not pay: until it has more, or something cheaper is free
    QUOTA = "quota"  # the account runs as much as it may: until something of it ends
    TOO_LARGE = "too_large"  # it asks for more than the account may run: until it may run more

    @property
    def is_of_account(self) -> bool:
        """Whether it is the account's own affair, however much is free."""
        return self in _OF_ACCOUNT


_OF_ACCOUNT = {Halt.CREDIT, Halt.QUOTA, Halt.TOO_LARGE}
