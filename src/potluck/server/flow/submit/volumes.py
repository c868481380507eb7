"""Volumes: a version becomes visible when its manifest and all its packs are stored.

The manifest is read and checked once, here: which packs a version uses, which bytes of each, and
how large it is are facts of the server, not claims of a client.
"""

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from potluck.model.blob import BlobRef, VolumeMount
from potluck.model.error import Conflict, InvalidInput, TooLarge
from potluck.model.ids import AccountId
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.files import blobs, volumes
from potluck.store.files.volumes import MountableVersion, NewVersion, Spans
from potluck.wire.signing.address import checksummed
from potluck.wire.volumes import (
    MOST_MANIFEST_BYTES,
    ChangeVolume,
    PutVolume,
    VolumeDetails,
    VolumeManifest,
    VolumeView,
    decode_manifest,
    version_of,
)

_AT_ONCE = 100


async def put(services: Services, account_id: AccountId, request: PutVolume) -> VolumeDetails:
    """Adds a version; safe to repeat. Raises Conflict if a pack is not, or no longer, there."""
    if request.manifest.size_bytes > MOST_MANIFEST_BYTES:
        raise TooLarge(
            f"A manifest has at most {MOST_MANIFEST_BYTES >> 20} MiB.",
            "Pack many small files into one, or use several volumes.",
        )
    async with services.database.transaction() as connection:
        stored = await blobs.of_account(connection, account_id, request.manifest.sha256)
    if stored is None or stored.blob != request.manifest:
        raise blobs.blob_not_claimed(request.manifest)
    async with services.manifest_turn:
        data = await services.blobs.get(stored.object_key)
        packs, new = await asyncio.to_thread(_read, request, data)
        del data
    async with services.database.transaction() as connection:
        await blobs.lock_use(connection, account_id)
        volume_id = await volumes.make(connection, account_id, request.name)
        await volumes.check_newest(connection, volume_id, new.version, request.after)
        named = [request.manifest, *packs]
        for missing in await blobs.find_missing(connection, account_id, named):
            raise Conflict(
                f"A part of the volume is not stored: the blob {missing.sha256}.",
                "Upload it, then put the volume again.",
            )
        await volumes.put(connection, account_id, volume_id, new)
        return await _details(connection, account_id, volume_id)


def _read(request: PutVolume, data: bytes) -> tuple[tuple[BlobRef, ...], NewVersion]:
    """The packs of a manifest, and the version that it is; raises InvalidInput."""
    manifest = decode_manifest(data)
    return manifest.packs, NewVersion(
        bytes.fromhex(version_of(manifest.files)),
        bytes.fromhex(request.manifest.sha256),
        request.manifest.size_bytes,
        manifest.size_bytes,
        len(manifest.files),
        _used_spans(manifest),
    )


def _used_spans(manifest: VolumeManifest) -> dict[str, Spans | None]:
    """Which bytes of each pack belong to the version; None: all of them."""
    chunks: list[set[tuple[int, int]]] = [set() for _ in manifest.packs]
    for file in manifest.files:
        for chunk in file.chunks:
            chunks[chunk.pack].add((chunk.offset, chunk.offset + chunk.size_bytes))
    spans: dict[str, Spans | None] = {}
    for pack, used in zip(manifest.packs, chunks, strict=True):
        merged = _merge(sorted(used))
        spans[pack.sha256] = None if merged == ((0, pack.size_bytes),) else merged
    return spans


def _merge(spans: Iterable[tuple[int, int]]) -> Spans:
    merged: list[tuple[int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


async def list_page(
    services: Services, account_id: AccountId, after: str | None, limit: int
) -> list[VolumeView]:
    async with services.database.transaction() as connection:
        return await volumes.page(connection, account_id, after, limit)


async def show(services: Services, account_id: AccountId, volume_id: str) -> VolumeDetails:
    """A volume of the account, or one that is shared with it."""
    async with services.database.transaction() as connection:
        return await _details(connection, account_id, volume_id)


async def _details(connection: Connection, account_id: AccountId, volume_id: str) -> VolumeDetails:
    view = await volumes.get(connection, account_id, volume_id)
    return VolumeDetails(view, await volumes.list_versions(connection, volume_id))


async def change(
    services: Services, account_id: AccountId, volume_id: str, wanted: ChangeVolume
) -> VolumeDetails:
    """Sets whom it is shared with, and how long versions are kept."""
    if wanted.shared_with is not UNSET:
        wanted = replace(wanted, shared_with=tuple(map(checksummed, wanted.shared_with)))
    async with services.database.transaction() as connection:
        await volumes.lock_own(connection, account_id, volume_id)
        await volumes.change(connection, volume_id, wanted)
        return await _details(connection, account_id, volume_id)


async def remove(
    services: Services, account_id: AccountId, volume_id: str, version: str | None
) -> None:
    """Removes one version, or all. Tasks that mount it keep it until they have ended."""
    digest = None if version is None else bytes.fromhex(version)
    async with services.database.transaction() as connection:
        await volumes.lock_own(connection, account_id, volume_id)
        await volumes.remove(connection, volume_id, digest)
    await drop_removed(services, account_id)


async def drop_removed(services: Services, account_id: AccountId | None = None) -> None:
    """Deletes removed versions that no unfinished task mounts, of one account or of all."""
    async with services.database.transaction() as connection:
        removable = await volumes.find_removable(connection, account_id, _AT_ONCE)
    for gone in removable:
        async with services.database.transaction() as connection:
            await blobs.lock_use(connection, gone.account_id)
            await volumes.drop(connection, gone)


async def expire(services: Services) -> None:
    """Removes what the owners' rules no longer keep, then deletes what was removed."""
    async with services.database.transaction() as connection:
        await volumes.expire(connection)
    await drop_removed(services)


def resolve_mounts(
    mounts: Sequence[VolumeMount], known: Sequence[MountableVersion]
) -> tuple[VolumeMount, ...]:
    """Each with its whole version, manifest and owner; `known` lists the newest first."""
    return tuple(_resolve(mount, known) for mount in mounts)


def _resolve(mount: VolumeMount, known: Sequence[MountableVersion]) -> VolumeMount:
    owner = None if mount.owner is None else checksummed(mount.owner)
    of_name = [
        volume
        for volume in known
        if volume.name == mount.name and (volume.is_own if owner is None else volume.owner == owner)
    ]
    if not of_name:
        which = f"volume {mount.name!r}"
        raise InvalidInput(
            f"You have no {which}."
            if owner is None
            else f"{owner} has no {which} that you may mount.",
            "`potluck volume ls` lists them; one that is shared with you is WALLET/NAME.",
        )
    matches = [volume for volume in of_name if volume.version.startswith(mount.version or "")]
    if not matches:
        raise InvalidInput(
            f"The volume {mount.name!r} has no version {mount.version}.",
            "`potluck volume show` lists its versions.",
        )
    if mount.version is not None and len(matches) > 1:
        raise InvalidInput(
            f"{len(matches)} versions of {mount.name!r} begin with {mount.version}.",
            "Write more digits of it.",
        )
    first = matches[0]
    return VolumeMount(
        mount.name, mount.path, first.version, first.owner, first.manifest, first.size_bytes
    )
