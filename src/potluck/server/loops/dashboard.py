"""Takes over a build of the dashboard when there is a new one, without a restart.

Every instance runs it. The wheel for clients is built again, so that it contains the same
dashboard. All files are read in threads.
"""

import asyncio
from pathlib import Path
from typing import Final

import structlog

from potluck.server.dashboard import (
    BUILT_FOLDER,
    MANIFEST,
    Dashboard,
    DashboardBuild,
    DashboardUnreadable,
    read_build,
)
from potluck.server.package_wheel import OfferedWheels, build_own_wheel
from potluck.server.settings import ServerSettings

log = structlog.get_logger()

# Of the manifest: its inode, size, and time of change.
FileState = tuple[int, int, int]
_ABSENT: Final = None


class DashboardLoop:
    def __init__(
        self, settings: ServerSettings, dashboard: Dashboard, wheels: OfferedWheels
    ) -> None:
        self._folder = settings.dashboard_directory or BUILT_FOLDER
        self._poll_seconds = settings.dashboard_poll_seconds
        self._dashboard = dashboard
        self._wheels = wheels
        self._state: FileState | None = _ABSENT  # of the build that is served
        self._logged: FileState | None = _ABSENT  # of the last one that was not complete
        self._has_looked = False

    async def run(self) -> None:
        """Runs until cancelled."""
        await self.keep_earlier_wheel()
        while True:
            await asyncio.sleep(self._poll_seconds)
            try:
                await self.run_once()
            except Exception:
                log.exception("the dashboard could not be taken over")

    async def keep_earlier_wheel(self) -> None:
        """Serves what the server's first start named, before there was a dashboard."""
        if self._dashboard.current is None:
            return  # it is the current wheel
        wheel = await asyncio.to_thread(build_own_wheel, {})
        if wheel is not None:
            self._wheels.keep_without_dashboard(wheel)

    async def run_once(self) -> None:
        state = await asyncio.to_thread(_file_state, self._folder / MANIFEST)
        build = None if state in (_ABSENT, self._state) else await self._read(state)
        if build is not None:
            self._dashboard.replace(build)
            self._state = state
        if build is not None or not self._has_looked:
            self._has_looked = True
            await self._offer_wheel()

    async def _read(self, state: FileState | None) -> DashboardBuild | None:
        """None if the build is not complete; the next look may find it so."""
        try:
            build = await asyncio.to_thread(read_build, self._folder)
        except DashboardUnreadable as error:
            if state != self._logged:
                log.warning("the build of the dashboard is not complete", detail=str(error))
            self._logged = state
            return None
        files, digest = len(build.files), build.source[:12]  # all of it looks like a key
        log.info("serving a build of the dashboard", source=digest, files=files)
        return build

    async def _offer_wheel(self) -> None:
        current = self._dashboard.current
        stored = {} if current is None else current.stored
        wheel = await asyncio.to_thread(build_own_wheel, stored)
        if wheel is not None:
            self._wheels.offer(wheel)


def _file_state(path: Path) -> FileState | None:
    try:
        status = path.stat()
    except OSError:
        return _ABSENT
    return status.st_ino, status.st_size, status.st_mtime_ns
