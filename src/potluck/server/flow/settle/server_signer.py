"""The key that signs statements and countersigns receipts; the same on all instances."""

from functools import lru_cache

from potluck.server.services import Services
from potluck.wire.signing.signature import Signer


def server_signer(services: Services) -> Signer:
    return _signer(services.keys.signing)


@lru_cache(maxsize=4)
def _signer(key: bytes) -> Signer:
    return Signer(key)
