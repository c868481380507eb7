"""Volumes: named data sets that tasks mount read-only.

A put sends only chunks that no volume of the account has. It resumes after an interruption: packs
that arrived are not sent again. Nothing is visible before all of it has arrived.
"""

import hashlib
import io
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from potluck.consumer.files.download import read_span
from potluck.consumer.files.files import Files, resolve_target
from potluck.consumer.files.upload import Progress, describe_blob, persist, upload
from potluck.consumer.files.volume_content import (
    ChunkedFile,
    LocalFile,
    PackedChunks,
    chunk_file,
    index_chunks,
    list_sources,
    make_manifest,
    pack_chunks,
    read_pack,
    version_of_files,
)
from potluck.consumer.http.thread_map import map_in_threads
from potluck.consumer.http.transport import Transport, call_api, iter_pages, send_command
from potluck.model.blob import BlobRef, check_volume_name
from potluck.model.error import Conflict, Forbidden, InvalidInput, NotFound, UntrustedResult
from potluck.wire import routes
from potluck.wire.signing.address import checksummed
from potluck.wire.volumes import (
    MOST_MANIFEST_BYTES,
    ChangeVolume,
    PutVolume,
    VolumeDetails,
    VolumeFile,
    VolumeList,
    VolumeManifest,
    VolumeVersion,
    VolumeView,
    decode_manifest,
)

# Packs are in memory while they are sent.
_MOST_SENDERS = 4
_TRIES = 4
# Of the versions in which chunks are looked for.
_MOST_OLD_VERSIONS = 8


class VolumePut(Struct, frozen=True):
    """A put volume, and how much of it had to be sent."""

    volume: VolumeDetails
    sent_bytes: int
    is_new: bool  # False if the newest version had this content already


class Volumes:
    """The volumes of one account, by name; those of others are `WALLET/NAME`."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def list(self) -> "list[VolumeView]":
        """Volumes of the account, and those that others share with it."""
        pages = iter_pages(self._transport, routes.LIST_VOLUMES, VolumeList)
        return [volume for page in pages for volume in page.volumes]

    def get(self, name: str) -> VolumeDetails:
        """A volume with its versions, newest first."""
        names = {"volume_id": self._find(name).id}
        return call_api(self._transport, routes.GET_VOLUME, VolumeDetails, names)

    def put(
        self, name: str, *sources: str | Path, on_progress: Progress | None = None
    ) -> VolumePut:
        """Makes these files the newest version: those of one folder, or several files and folders
        by their names."""
        check_volume_name(name)
        files = [chunk_file(file) for file in list_sources([Path(each) for each in sources])]
        for _ in range(_TRIES):
            try:
                return self._put(name, files, on_progress)
            except Conflict as error:
                conflict = error  # a version that had some of the chunks was removed meanwhile
        raise conflict

    def add(
        self, name: str, added: Mapping[str, str | Path], on_progress: Progress | None = None
    ) -> VolumePut:
        """Makes a new version with these files besides those of the newest; the keys are their
        paths in the volume."""
        check_volume_name(name)
        local = sorted(LocalFile(path, Path(source)) for path, source in added.items())
        files = [chunk_file(file) for file in local]
        for _ in range(_TRIES):
            try:
                return self._add(name, files, on_progress)
            except Conflict as error:
                conflict = error  # another version was put meanwhile
        raise conflict

    def remove(self, name: str, version: str | None = None) -> None:
        """Removes one version, or the volume. Tasks that mount it keep it until their end."""
        volume = self._find_own(name, "remove")
        if version is None:
            names = {"volume_id": volume.id}
            send_command(self._transport, routes.REMOVE_VOLUME, names)
            return
        names = {"volume_id": volume.id, "version": self._find_version(name, version).version}
        send_command(self._transport, routes.REMOVE_VERSION, names)

    def share(self, name: str, *wallets: str) -> VolumeDetails:
        """Lets these accounts mount and read it, too."""
        volume = self._find_own(name, "share")
        both = (*volume.shared_with, *map(checksummed, wallets))
        return self._change(volume, ChangeVolume(shared_with=tuple(dict.fromkeys(both))))

    def unshare(self, name: str, *wallets: str) -> VolumeDetails:
        """Tasks that these accounts have submitted already still get it."""
        volume = self._find_own(name, "share")
        gone = {checksummed(wallet) for wallet in wallets}
        left = tuple(wallet for wallet in volume.shared_with if wallet not in gone)
        return self._change(volume, ChangeVolume(shared_with=left))

    def keep(
        self, name: str, *, versions: int | None = None, seconds: float | None = None
    ) -> VolumeDetails:
        """Removes older versions than the newest so many, and those not used for so long; None: no
        limit."""
        wanted = ChangeVolume(keep_versions=versions, keep_seconds=seconds)
        return self._change(self._find_own(name, "change"), wanted)

    def files(self, name: str, version: str | None = None) -> tuple[VolumeFile, ...]:
        """The files of a version, by default of the newest."""
        return self._manifest(self._find_version(name, version).manifest).files

    def fetch(
        self,
        name: str,
        directory: str | Path,
        path: str = "",
        version: str | None = None,
        on_progress: Progress | None = None,
        *,
        as_file: bool = False,
    ) -> tuple[Path, ...]:
        """Downloads a file or folder of a version, or all of it; returns where the files are.

        With `as_file` a single file gets the path `directory` itself.
        """
        manifest = self._manifest(self._find_version(name, version).manifest)
        wanted = _below(manifest.files, path.strip("/"))
        if not wanted:
            raise NotFound(f"{name} has no file {path!r}.", "`potluck volume show` lists them.")
        top = Path(directory)
        if as_file and [file.path for _, file in wanted] == [path.strip("/")]:
            top, wanted = top.parent, [(top.name, wanted[0][1])]
        top.mkdir(parents=True, exist_ok=True)
        places = [resolve_target(top, local) for local, _ in wanted]
        total = sum(file.size_bytes for _, file in wanted)
        done = 0
        for place, (_, file) in zip(places, wanted, strict=True):
            self._download(manifest, file, place)
            done += file.size_bytes
            if on_progress is not None:
                on_progress(done, total)
        return tuple(places)

    def _find_version(self, name: str, version: str | None) -> VolumeVersion:
        """The newest version, or the only one that begins like this."""
        versions = self.get(name).versions
        if version is None:
            return versions[0]
        found = [each for each in versions if each.version.startswith(version)]
        if len(found) != 1:
            raise InvalidInput(
                f"{len(found) or 'No'} versions of {name} begin with {version!r}.",
                "`potluck volume show` lists them.",
            )
        return found[0]

    def _find(self, name: str) -> VolumeView:
        owner, _, plain = name.rpartition("/")
        wallet = checksummed(owner) if owner else None
        for volume in self.list():
            is_it = volume.is_own if wallet is None else volume.owner == wallet
            if volume.name == plain and is_it:
                return volume
        raise NotFound(f"You have no volume {name!r}.", "`potluck volume ls` lists them.")

    def _find_own(self, name: str, verb: str) -> VolumeView:
        volume = self._find(name)
        if not volume.is_own:
            raise Forbidden(
                f"{volume.name} is shared with you; only its owner can {verb} it.",
                "`potluck volume ls` says whose each volume is.",
            )
        return volume

    def _change(self, volume: VolumeView, wanted: ChangeVolume) -> VolumeDetails:
        names = {"volume_id": volume.id}
        return call_api(
            self._transport,
            routes.CHANGE_VOLUME,
            VolumeDetails,
            names,
            body=wanted,
            repeatable=True,
        )

    def _put(
        self, name: str, files: Sequence[ChunkedFile], on_progress: Progress | None
    ) -> VolumePut:
        own = [volume for volume in self.list() if volume.is_own]
        same = next((volume for volume in own if volume.name == name), None)
        if same is not None and same.newest.version == version_of_files(files):
            return VolumePut(self.get(name), 0, False)
        manifests = self._known_manifests(own, same)
        packed = pack_chunks(files, index_chunks(manifests))
        packs, sent_bytes = self._send(packed, on_progress)
        manifest = make_manifest(files, packed, packs)
        return self._finish(name, manifest, sent_bytes, None)

    def _add(
        self, name: str, files: Sequence[ChunkedFile], on_progress: Progress | None
    ) -> VolumePut:
        own = [volume for volume in self.list() if volume.is_own and volume.name == name]
        newest = own[0].newest if own else None
        base = None if newest is None else self._manifest(newest.manifest)
        packed = pack_chunks(files, index_chunks([] if base is None else [base]))
        packs, sent_bytes = self._send(packed, on_progress)
        replaced = {file.path for file in files}
        kept = [
            (file, base)
            for file in (() if base is None else base.files)
            if base is not None and file.path not in replaced
        ]
        manifest = make_manifest(files, packed, packs, kept)
        after = None if newest is None else newest.version
        return self._finish(name, manifest, sent_bytes, after)

    def _finish(
        self, name: str, manifest: VolumeManifest, sent_bytes: int, after: str | None
    ) -> VolumePut:
        data = manifest.encode()
        if len(data) > MOST_MANIFEST_BYTES:
            raise InvalidInput(
                "The volume has too many files and chunks.",
                "Pack many small files into one, or use several volumes.",
            )
        transport = self._transport

        def finish() -> VolumeDetails:
            body = PutVolume(name, Files(transport).upload_bytes(data), after)
            return call_api(transport, routes.PUT_VOLUME, VolumeDetails, body=body, repeatable=True)

        return VolumePut(persist(transport, finish), sent_bytes + len(data), True)

    def _known_manifests(
        self, own: Sequence[VolumeView], same: VolumeView | None
    ) -> Sequence[VolumeManifest]:
        """Of the versions that may have some of the chunks; first those of the same volume."""
        versions = [] if same is None else self.get(same.name).versions[:_MOST_OLD_VERSIONS]
        newest = sorted((volume.newest for volume in own), key=lambda each: each.put_at)
        refs = dict.fromkeys(each.manifest for each in (*versions, *reversed(newest)))
        manifests, left_bytes = [], MOST_MANIFEST_BYTES
        for ref in refs:
            left_bytes -= ref.size_bytes
            if left_bytes < 0:
                break
            manifests.append(self._manifest(ref))
        return manifests

    def _manifest(self, ref: BlobRef) -> VolumeManifest:
        if ref.size_bytes > MOST_MANIFEST_BYTES:
            raise UntrustedResult("The manifest of the volume is too large.", "Do not use it.")
        return decode_manifest(Files(self._transport).download_bytes(ref))

    def _send(
        self, packed: PackedChunks, on_progress: Progress | None
    ) -> tuple[Sequence[BlobRef], int]:
        """Uploads the new packs, a few at a time; returns them in order, and how much was sent."""
        refs: dict[int, BlobRef] = {}
        done, sent, total, lock = 0, 0, packed.new_bytes, threading.Lock()

        def send(number: int) -> None:
            nonlocal done, sent
            source = io.BytesIO(read_pack(packed.new_packs[number]))
            ref = describe_blob(source)
            new = persist(self._transport, lambda: upload(self._transport, source, ref))
            with lock:
                sent += new
                refs[number] = ref
                done += ref.size_bytes
                if on_progress is not None:
                    on_progress(done, total)

        map_in_threads(send, range(len(packed.new_packs)), _MOST_SENDERS)
        return [refs[number] for number in range(len(packed.new_packs))], sent

    def _download(self, manifest: VolumeManifest, file: VolumeFile, place: Path) -> None:
        """The file appears only when all its chunks are right."""
        part = place.with_name(f".{place.name[:60]}.part")
        with part.open("wb") as target:
            for chunk in file.chunks:
                start, end = chunk.offset, chunk.offset + chunk.size_bytes
                data = read_span(self._transport, manifest.packs[chunk.pack], start, end)
                if hashlib.sha256(data).digest() != chunk.sha256:
                    raise UntrustedResult(f"A part of {file.path!r} is damaged.", "Try again.")
                target.write(data)
        part.chmod(0o755 if file.is_executable else 0o644)
        part.replace(place)


def _below(files: Sequence[VolumeFile], path: str) -> list[tuple[str, VolumeFile]]:
    """The file of this path, or the files of this folder, with their names below the target."""
    if not path:
        return [(file.path, file) for file in files]
    name = path.rpartition("/")[2]
    return [
        (name + file.path.removeprefix(path), file)
        for file in files
        if file.path == path or file.path.startswith(f"{path}/")
    ]
