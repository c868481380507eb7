"""Files as chunks and packs: a small change makes few of them new, and the same files the same."""

import random
from pathlib import Path

import pytest

from potluck.consumer.files.volume_content import (
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
from potluck.model.error import InvalidInput
from potluck.model.task import MIB
from potluck.wire.volumes import (
    MOST_CHUNK_BYTES,
    MOST_PACK_BYTES,
    VolumeManifest,
    decode_manifest,
    version_of,
)


@pytest.fixture(scope="module")
def large() -> bytes:
    return random.Random(7).randbytes(40 * MIB)


def manifest_of(packed: PackedChunks, *files: object) -> VolumeManifest:
    import io

    from potluck.consumer.files.upload import describe_blob

    sent = [describe_blob(io.BytesIO(read_pack(pack))) for pack in packed.new_packs]
    return make_manifest(files, packed, sent)  # type: ignore[arg-type]


def test_chunks_cover_the_file_and_follow_its_content(tmp_path: Path, large: bytes) -> None:
    file = tmp_path / "large.bin"
    file.write_bytes(large)
    before = chunk_file(LocalFile("large.bin", file))
    assert sum(chunk.size_bytes for chunk in before.chunks) == len(large)
    assert all(chunk.size_bytes <= MOST_CHUNK_BYTES for chunk in before.chunks)
    assert 20 < len(before.chunks) < 80
    file.write_bytes(large[: 9 * MIB] + b"inserted" + large[9 * MIB :])
    after = chunk_file(LocalFile("large.bin", file))
    known_hashes = {chunk.sha256 for chunk in before.chunks}
    new = [chunk for chunk in after.chunks if chunk.sha256 not in known_hashes]
    assert 1 <= len(new) <= 3, "everything behind it is as it was"


def test_packs_are_the_same_again_and_mostly_after_a_change(tmp_path: Path, large: bytes) -> None:
    first, second = tmp_path / "1.bin", tmp_path / "2.bin"
    first.write_bytes(large)
    second.write_bytes(large[::-1])
    files = [chunk_file(LocalFile(path.name, path)) for path in (first, second)]
    packed = pack_chunks(files, {})
    assert packed == pack_chunks(files, {})
    sizes = [sum(chunk.size_bytes for chunk in pack) for pack in packed.new_packs]
    assert all(8 * MIB <= size <= MOST_PACK_BYTES for size in sizes[:-1]), sizes
    first.write_bytes(b"x" + large[1:])
    changed = pack_chunks([chunk_file(LocalFile("1.bin", first)), files[1]], {})
    same = [pack for pack in changed.new_packs if pack in packed.new_packs]
    assert len(same) >= len(packed.new_packs) - 1


def test_stored_chunks_are_not_packed_again_and_the_manifest_lists_them_all(
    tmp_path: Path, large: bytes
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "large.bin").write_bytes(large)
    (tmp_path / "a" / "twice.bin").write_bytes(large)
    (tmp_path / "empty").touch()
    files = [chunk_file(file) for file in list_sources([tmp_path])]
    packed = pack_chunks(files, {})
    assert packed.new_bytes == len(large), "equal chunks are sent once"
    manifest = manifest_of(packed, *files)
    assert decode_manifest(manifest.encode()) == manifest
    assert version_of(manifest.files) == version_of_files(files)
    assert [file.path for file in manifest.files] == ["a/large.bin", "a/twice.bin", "empty"]
    repacked = pack_chunks(files, index_chunks([manifest]))
    assert repacked.new_packs == ()
    assert make_manifest(files, repacked, []) == manifest


def test_a_pack_of_which_little_is_needed_is_not_used_again(tmp_path: Path, large: bytes) -> None:
    whole_file, part = tmp_path / "whole.bin", tmp_path / "part.bin"
    whole_file.write_bytes(large[: 8 * MIB])
    files = [chunk_file(LocalFile("whole.bin", whole_file))]
    known_chunks = index_chunks([manifest_of(pack_chunks(files, {}), *files)])
    first = files[0].chunks[0]
    part.write_bytes(large[: first.size_bytes])
    packed = pack_chunks([chunk_file(LocalFile("part.bin", part))], known_chunks)
    share = first.size_bytes / (8 * MIB)
    assert packed.new_bytes == (first.size_bytes if share < 0.25 else 0)


def test_a_file_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "a.bin"
    file.write_bytes(b"before" * 1000)
    (pack,) = pack_chunks([chunk_file(LocalFile("a.bin", file))], {}).new_packs
    file.write_bytes(b"after!" * 1000)
    with pytest.raises(InvalidInput, match="changed while it was put"):
        read_pack(pack)
    file.unlink()
    with pytest.raises(InvalidInput, match="changed while it was put"):
        read_pack(pack)


def test_sources_are_named_as_people_expect(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "b.txt").write_text("b")
    (folder / "link.txt").symlink_to("sub/b.txt")
    (tmp_path / "a.txt").write_text("a")
    assert [file.path for file in list_sources([folder])] == ["link.txt", "sub/b.txt"]
    both = [file.path for file in list_sources([folder, tmp_path / "a.txt"])]
    assert both == ["a.txt", "folder/link.txt", "folder/sub/b.txt"]
    with pytest.raises(InvalidInput, match="no files"):
        (tmp_path / "nothing").mkdir()
        list_sources([tmp_path / "nothing"])
    with pytest.raises(InvalidInput, match=r"neither a folder nor a file: it does not exist"):
        list_sources([tmp_path / "missing"])
    with pytest.raises(InvalidInput, match="Two files"):
        list_sources([tmp_path / "a.txt", tmp_path / "a.txt"])
    (folder / "out").symlink_to("/etc/hostname")
    (folder / "loop").symlink_to("sub")
    with pytest.raises(InvalidInput, match="is a link to"):
        list_sources([folder])
