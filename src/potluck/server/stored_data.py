"""Opens the database and the blobs of a server: for the server, and for commands beside it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from potluck.blobs.directory import DirectoryBlobs
from potluck.blobs.interface import Blobs
from potluck.local.data_directory import held
from potluck.model.error import DataDirectoryInUse, NotFound
from potluck.server.postgres import embedded_postgres, running_url
from potluck.server.settings import ServerSettings
from potluck.store.schema import check_address


@asynccontextmanager
async def database_of(settings: ServerSettings) -> AsyncIterator[str]:
    """Its URL, past a pooler. The embedded PostgreSQL is started, unless the server runs."""
    if (url := own_postgres_of(settings)) is not None:
        await check_address(url)
        yield url
        return
    directory = settings.data_directory / "postgres"
    async with AsyncExitStack() as stack:
        try:
            stack.enter_context(held(settings.data_directory, in_use(settings.data_directory)))
        except DataDirectoryInUse:
            yield running_url(directory)
            return
        yield await stack.enter_async_context(embedded_postgres(directory))


@asynccontextmanager
async def own_database_of(settings: ServerSettings) -> AsyncIterator[str]:
    """Its URL. Raises DataDirectoryInUse if the server runs."""
    async with AsyncExitStack() as stack:
        stack.enter_context(held(settings.data_directory, in_use(settings.data_directory)))
        if (url := own_postgres_of(settings)) is not None:
            await check_address(url)
            yield url
        else:
            directory = settings.data_directory / "postgres"
            yield await stack.enter_async_context(embedded_postgres(directory))


@asynccontextmanager
async def blobs_of(settings: ServerSettings, *, is_owner: bool) -> AsyncIterator[Blobs]:
    """`is_owner` is the one that has locked the data directory."""
    if settings.blobs_url is None:
        yield DirectoryBlobs(settings.data_directory / "blobs", is_owner=is_owner)
        return
    from potluck.blobs.object_store import ObjectStoreBlobs  # a large import that few servers need

    store = ObjectStoreBlobs(settings.blobs_url, settings.data_directory / "spool")
    try:
        yield store
    finally:
        store.close()


def own_postgres_of(settings: ServerSettings) -> str | None:
    """The direct address of the operator's PostgreSQL; None: it is the embedded one."""
    return settings.database_direct_url or settings.database_url


def find_ledger(settings: ServerSettings) -> str:
    """The address for a process that only reads. The server runs, if the PostgreSQL is its own."""
    named = settings.treasury_database_url or own_postgres_of(settings)
    return named or running_url(settings.data_directory / "postgres")


def check_server_exists(settings: ServerSettings) -> None:
    """Raises NotFound if the embedded PostgreSQL would have to be made first."""
    directory = settings.data_directory
    if own_postgres_of(settings) is None and not (directory / "postgres" / "cluster").is_dir():
        raise NotFound(
            f"There is no server in {directory}.",
            "Name its data directory with --data-dir, or its PostgreSQL with --database-url.",
        )


def in_use(directory: Path) -> DataDirectoryInUse:
    return DataDirectoryInUse(
        f"Another Potluck server uses {directory}.",
        "Stop it first, or choose another directory with --data-dir.",
    )
