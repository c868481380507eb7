"""Volumes: named data sets that tasks mount read-only."""

import re
from typing import Final

from potluck.model.account import Scope
from potluck.model.error import Conflict, InvalidInput, NotFound, QuotaExceeded, TooLarge
from potluck.model.ids import is_id
from potluck.server.api.area import Area
from potluck.server.api.examples.names import OWNER, VERSION, VOLUME, WALLET, at
from potluck.server.api.examples.work import BLOB
from potluck.server.api.http.pagination import Cursor, Limit, check_cursor, next_page
from potluck.server.api.http.parameters import CallerRequest
from potluck.server.flow.submit import volumes
from potluck.server.services import Services
from potluck.store.files.volumes import no_such_volume
from potluck.wire import routes
from potluck.wire.volumes import (
    ChangeVolume,
    PutVolume,
    VolumeDetails,
    VolumeList,
    VolumeVersion,
    VolumeView,
)

_VERSION = re.compile("[0-9a-f]{64}")

# Examples.
_NEWEST = VolumeVersion(VERSION, BLOB, 2_147_483_648, 1_204, at(9, 40), at(9, 41))
_VIEW = VolumeView(VOLUME, "imagenet", WALLET, True, _NEWEST, 1, 2_147_483_648)
_DETAILS = VolumeDetails(_VIEW, [_NEWEST])
_SHARED = VolumeDetails(
    VolumeView(VOLUME, "imagenet", WALLET, True, _NEWEST, 1, 2_147_483_648, [OWNER]), [_NEWEST]
)

AREA: Final = Area(
    "volumes",
    "Volumes: named data sets with versions by content. Upload packs and a manifest like files, "
    "then put the volume; tasks mount it read-only.",
)


@AREA.operation(routes.LIST_VOLUMES, Scope.TASKS_READ, "List volumes", response=VolumeList([_VIEW]))
async def list_volumes(
    request: CallerRequest, services: Services, cursor: Cursor = None, limit: Limit = 100
) -> VolumeList:
    """Lists your volumes and those that others share with you, oldest first."""
    check_cursor(cursor, "volume")
    found = await volumes.list_page(services, request.user.id, cursor, limit)
    return VolumeList(*next_page(found, limit))


@AREA.operation(
    routes.PUT_VOLUME,
    Scope.TASKS_WRITE,
    "Put a version of a volume",
    request=PutVolume("imagenet", BLOB),
    response=_DETAILS,
    errors=(InvalidInput, Conflict, QuotaExceeded, TooLarge),
    status_code=200,
)
async def put_volume(data: PutVolume, request: CallerRequest, services: Services) -> VolumeDetails:
    """Makes the content of an uploaded manifest the newest version. It is safe to repeat."""
    return await volumes.put(services, request.user.id, data)


@AREA.operation(routes.GET_VOLUME, Scope.TASKS_READ, "Show a volume", response=_DETAILS)
async def get_volume(volume_id: str, request: CallerRequest, services: Services) -> VolumeDetails:
    """Returns a volume with its versions, newest first."""
    return await volumes.show(services, request.user.id, _volume_id(volume_id))


@AREA.operation(
    routes.CHANGE_VOLUME,
    Scope.TASKS_WRITE,
    "Share a volume, or limit its versions",
    request=ChangeVolume(shared_with=(OWNER,)),
    response=_SHARED,
)
async def change_volume(
    volume_id: str, data: ChangeVolume, request: CallerRequest, services: Services
) -> VolumeDetails:
    """Changes whom it is shared with, and how long versions are kept. Omitted fields stay."""
    return await volumes.change(services, request.user.id, _volume_id(volume_id), data)


@AREA.operation(routes.REMOVE_VOLUME, Scope.TASKS_WRITE, "Remove a volume")
async def remove_volume(volume_id: str, request: CallerRequest, services: Services) -> None:
    """Removes all versions. Tasks that mount one keep it until they have ended."""
    await volumes.remove(services, request.user.id, _volume_id(volume_id), None)


@AREA.operation(routes.REMOVE_VERSION, Scope.TASKS_WRITE, "Remove a version of a volume")
async def remove_version(
    volume_id: str, version: str, request: CallerRequest, services: Services
) -> None:
    """Removes one version; with the last one the volume is gone."""
    if not _VERSION.fullmatch(version):
        raise NotFound("The volume has no such version.", "Name it by all 64 digits.")
    await volumes.remove(services, request.user.id, _volume_id(volume_id), version)


def _volume_id(text: str) -> str:
    if not is_id(text, "volume"):
        raise no_such_volume(text)
    return text
