"""What a running server signs with, read as another instance of it would.

So a token can be wrong in exactly one way, and right in every other, its signature included.
"""

import asyncio
from pathlib import Path

from potluck.server.auth.keys import Keys
from potluck.server.encryption.open_vault import open_vault
from potluck.server.settings import ServerSettings
from potluck.store.database import Database

ENCRYPTION_KEY = "7c" * 32  # of the server, as POTLUCK_ENCRYPTION_KEY


def keys_of(database_url: str) -> Keys:
    return asyncio.run(_read(database_url))


async def _read(database_url: str) -> Keys:
    settings = ServerSettings(data_directory=Path("unused"), encryption_key=ENCRYPTION_KEY)
    database = await Database.connect(database_url, 2)
    try:
        _, keys = await open_vault(settings, database)
    finally:
        await database.close()
    return keys
