"""How the files of one attempt get from the server to this node, and back."""

from msgspec import Struct, field

from potluck.provider.attempt.unsent_results import Backlog
from potluck.provider.files.blob_transfer import Courier
from potluck.provider.files.outbox import Outbox


class Freight(Struct, frozen=True):
    """What leaves is put into the outbox, which somebody carries to the server; what can not wait
    for that is the courier's to bring or fetch at once. What goes with reports waits with them."""

    outbox: Outbox
    courier: Courier
    backlog: Backlog = field(default_factory=Backlog)
