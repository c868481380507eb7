"""Volumes as people use them, through a real server, two nodes and their sandboxes."""

import hashlib
import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import potluck
from potluck.consumer import Potluck
from potluck.model.blob import VolumeMount
from potluck.model.error import Forbidden, InvalidInput, NotFound
from potluck.model.task import MIB, Requirements, TaskRequest, TaskState
from potluck.model.task_spec import ScriptSpec
from potluck.wire.consumer import TaskView
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true
from tests.processes import potluck as program
from tests.wallets import Wallet

# Prints the hash of each file, and whether anything there can be changed.
LOOK = """
import hashlib, os, pathlib, sys
top = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/data")
for path in sorted(top.rglob("*")):
    if path.is_file():
        print(path.relative_to(top), hashlib.sha256(path.read_bytes()).hexdigest()[:12],
              "x" if os.access(path, os.X_OK) else "-")
for change in (lambda: (top / "new").write_text("x"), lambda: next(top.rglob("*.bin")).unlink()):
    try:
        change()
    except OSError as error:
        print("refused", error.strerror)
"""


class Pool:
    def __init__(self, top: Path, server: ServerProcess, client: Potluck) -> None:
        self.top, self.server, self.client = top, server, client

    def run(
        self, *mounts: VolumeMount, source: str = LOOK, client: Potluck | None = None
    ) -> TaskView:
        """Runs a script with these volumes to its end."""
        client = client or self.client
        request = TaskRequest(
            ScriptSpec("look.py", source), requirements=Requirements(volumes=mounts)
        )
        return client.tasks.wait(client.tasks.submit(request).id)

    def log(self, task: TaskView, client: Potluck | None = None) -> str:
        pieces = (client or self.client).tasks.logs(task.id).pieces
        return b"".join(piece.data for piece in pieces).decode()


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    top = tmp_path_factory.mktemp("volumes")
    names = ("node-a", "node-b")
    with (
        ServerProcess(top, POTLUCK_COLLECT_SECONDS="0.5") as server,
        ProviderProcess(top / "a", server, POTLUCK_PROVIDER_NAME=names[0], **FAST_PROVIDER),
        ProviderProcess(top / "b", server, POTLUCK_PROVIDER_NAME=names[1], **FAST_PROVIDER),
        Potluck(server.url, server.token) as client,
    ):
        yield Pool(top, server, client)


def make_folder(directory: Path, seed: int = 1) -> Path:
    """Some files: a large one, small ones, a program, an empty one, folders."""
    noise = random.Random(seed)
    (directory / "deep" / "er").mkdir(parents=True)
    (directory / "large.bin").write_bytes(noise.randbytes(12 * MIB))
    for number in range(5):
        (directory / "deep" / f"{number}.bin").write_bytes(noise.randbytes(1_000 + number))
    (directory / "deep" / "er" / "program").write_text("#!/bin/sh\n")
    (directory / "deep" / "er" / "program").chmod(0o755)
    (directory / "empty.bin").touch()
    return directory


def listed(directory: Path) -> list[str]:
    """As LOOK prints it."""
    return [
        f"{path.relative_to(directory)} {hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"
        f" {'x' if os.access(path, os.X_OK) else '-'}"
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    ]


def node_of(task: TaskView) -> str:
    return task.attempts[-1].node_name


def test_a_folder_is_mounted_read_only_and_fetched_once(pool: Pool, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "folder")
    stored = pool.client.volumes.put("photos", folder)
    assert stored.is_new and stored.volume.versions[0].files == 8
    first = pool.run(VolumeMount("photos", "/data"))
    assert first.state is TaskState.SUCCEEDED, pool.log(first)
    lines = pool.log(first).splitlines()
    assert lines[:-2] == listed(folder)
    assert [line.split()[0] for line in lines[-2:]] == ["refused", "refused"]
    # The node that holds it comes first, though both are idle; nothing is fetched again.
    for _ in range(3):
        second_task = pool.run(VolumeMount("photos", "/data"))
        assert node_of(second_task) == node_of(first)
        usage = second_task.attempts[-1].usage
        assert usage is not None and usage.input_bytes == 0
    explained_volumes = pool.client.tasks.explain(second_task.id).volumes
    assert [(volume.name, volume.nodes, volume.node_names) for volume in explained_volumes] == [
        ("photos", 1, [node_of(first)])
    ]


def test_of_a_changed_file_only_chunks_are_sent_and_fetched(pool: Pool, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "folder", seed=2)
    first = pool.client.volumes.put("edited", folder)
    assert first.sent_bytes > 12 * MIB
    before = pool.run(VolumeMount("edited", "/data"))
    with (folder / "large.bin").open("r+b") as file:
        file.seek(5 * MIB)
        file.write(b"one word")
    (folder / "deep" / "4.bin").rename(folder / "renamed.bin")
    second = pool.client.volumes.put("edited", folder)
    assert 0 < second.sent_bytes <= 4 * MIB + 65_536, "a chunk, and the manifest"
    # The node has the other chunks: it fetches no more either.
    after = pool.run(VolumeMount("edited", "/data"))
    assert pool.log(after).splitlines()[:-2] == listed(folder)
    usage = after.attempts[-1].usage
    assert usage is not None and 0 < usage.input_bytes <= 4 * MIB + 65_536
    assert node_of(after) == node_of(before), "nothing else fits better"
    # The earlier version is still there, by the beginning of its name.
    version = first.volume.versions[0].version
    earlier = pool.run(VolumeMount("edited", "/data", version[:8]))
    assert pool.log(earlier).splitlines()[:-2] == pool.log(before).splitlines()[:-2]
    # The same files again are the same version, and another volume costs next to nothing.
    assert not pool.client.volumes.put("edited", folder).is_new
    copy = pool.client.volumes.put("edited-copy", folder)
    assert copy.sent_bytes < 65_536
    assert copy.volume.versions[0].version == second.volume.versions[0].version


def test_volumes_are_mounted_where_the_task_says(pool: Pool, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "folder", seed=3)
    pool.client.volumes.put("places", folder)
    listing_source = (
        "import os; print(sorted(os.listdir('/work/in/data')), os.listdir('/volumes/places'))"
    )
    mounts = (VolumeMount("places", "/work/in/data"), VolumeMount("places", "/volumes/places"))
    task = pool.run(*mounts, source=listing_source)
    assert task.state is TaskState.SUCCEEDED, pool.log(task)
    assert "large.bin" in pool.log(task)
    assert "new file" not in pool.log(task), "what is mounted is no new file of the task"
    for path in ("/usr/share", "/work", "/work/output", "/etc", "/proc/1", "/tmp/x"):
        with pytest.raises(InvalidInput, match="cannot be mounted"):
            pool.run(VolumeMount("places", path))
    with pytest.raises(InvalidInput, match="same place"):
        pool.run(VolumeMount("places", "/data"), VolumeMount("places", "/data/deep"))
    with pytest.raises(InvalidInput, match="no volume 'nothing'"):
        pool.run(VolumeMount("nothing", "/data"))
    with pytest.raises(InvalidInput, match="no version"):
        pool.run(VolumeMount("places", "/data", "0000"))


def test_a_volume_is_readable_by_its_owner_and_shared_accounts(pool: Pool, tmp_path: Path) -> None:
    friend, stranger = Wallet("a friend"), Wallet("a stranger")
    owner = pool.server.wallet.address
    secret, shared_folder = tmp_path / "secret", tmp_path / "shown"
    make_folder(shared_folder, seed=4)
    make_folder(secret, seed=4)
    (secret / "deep" / "9.bin").write_bytes(b"not for others" * 20_000)
    pool.client.volumes.put("private", secret)
    stored = pool.client.volumes.put("shared", shared_folder)
    assert stored.sent_bytes < 65_536, "it consists of chunks of the private one"
    pool.client.volumes.share("shared", friend.address)
    name, mount = f"{owner}/shared", VolumeMount("shared", "/data", owner=owner)
    with (
        Potluck(pool.server.url, pool.server.sign_in(friend)) as friend_client,
        Potluck(pool.server.url, pool.server.sign_in(stranger)) as others,
    ):
        assert [volume.name for volume in friend_client.volumes.list()] == ["shared"]
        assert others.volumes.list() == []
        task = pool.run(mount, client=friend_client)
        assert pool.log(task, friend_client).splitlines()[:-2] == listed(shared_folder)
        for forbidden_call in (
            friend_client.volumes.remove,
            friend_client.volumes.share,
            friend_client.volumes.keep,
        ):
            with pytest.raises(Forbidden, match="shared is shared with you; only its owner can"):
                forbidden_call(name)
        places = friend_client.volumes.fetch(name, tmp_path / "fetched", "deep")
        assert [path.name for path in places] == [f"{number}.bin" for number in range(5)] + [
            "program"
        ]
        for client, volume, owner_of in (
            (friend_client, "private", owner),
            (others, "shared", owner),
            (friend_client, "shared", None),
        ):
            with pytest.raises(InvalidInput, match="no volume"):
                pool.run(VolumeMount(volume, "/data", owner=owner_of), client=client)
        with pytest.raises(NotFound):
            others.volumes.get(name)
        # A pack has chunks of both volumes: who may read one of them gets none of the other.
        (pack,) = {
            volume.packs
            for volume in [friend_client.volumes._manifest(stored.volume.versions[0].manifest)]
        }
        with pytest.raises(NotFound):
            friend_client.files.download_bytes(pack[0])
        pool.client.volumes.unshare("shared", friend.address)
        with pytest.raises(InvalidInput, match="no volume"):
            pool.run(mount, client=friend_client)


def test_functions_mount_volumes(pool: Pool, tmp_path: Path) -> None:
    pool.client.volumes.put("words", _write(tmp_path / "words.txt", "one two three"))

    @potluck.task(volume={"/words": "words"}, client=pool.client)
    def count() -> int:
        return len(Path("/words/words.txt").read_text().split())

    assert count.submit().result() == 3


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_a_file_is_added_and_files_are_copied_back(pool: Pool, tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "folder", seed=5)
    pool.client.volumes.put("growing", folder)
    added = pool.client.volumes.add("growing", {"notes/a.txt": _write(tmp_path / "a", "hello")})
    assert added.sent_bytes < 65_536 and added.volume.versions[0].files == 9
    (folder / "notes").mkdir()
    _write(folder / "notes" / "a.txt", "hello")
    pool.client.volumes.fetch("growing", tmp_path / "back")
    assert listed(tmp_path / "back") == listed(folder)
    assert not pool.client.volumes.put("growing", folder).is_new


def test_a_removed_version_stays_for_the_tasks_that_mount_it(pool: Pool, tmp_path: Path) -> None:
    pool.client.volumes.put("leaving", _write(tmp_path / "leaving.txt", "still here"))
    source = "import pathlib; print(pathlib.Path('/data/leaving.txt').read_text())"
    request = TaskRequest(
        ScriptSpec("look.py", source),
        delay_seconds=1.5,
        requirements=Requirements(volumes=(VolumeMount("leaving", "/data"),)),
    )
    task_id = pool.client.tasks.submit(request).id
    pool.client.volumes.remove("leaving")
    assert "leaving" not in [volume.name for volume in pool.client.volumes.list()]
    task = pool.client.tasks.wait(task_id)
    assert pool.log(task) == "still here\n"
    with pytest.raises(InvalidInput, match=r"has no volume 'leaving' that you may mount"):
        pool.client.tasks.retry(task_id)


def test_versions_go_by_the_rules_of_their_owner(pool: Pool, tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    for number in range(4):
        pool.client.volumes.put("ruled", _write(file, str(number)))
    newest = pool.client.volumes.get("ruled").versions[:2]
    pool.client.volumes.keep("ruled", versions=2)

    def kept() -> bool:
        return len(pool.client.volumes.get("ruled").versions) == 2

    await_true(kept, "older versions go")
    assert [version.version for version in pool.client.volumes.get("ruled").versions] == [
        version.version for version in newest
    ]


def test_the_commands_of_a_working_day(pool: Pool, tmp_path: Path) -> None:
    environment = {**os.environ, "POTLUCK_URL": pool.server.url, "POTLUCK_TOKEN": pool.server.token}

    def say(*arguments: str | Path, fails: bool = False) -> Any:
        depth = 2 if arguments[0] == "volume" else 1
        command = program(*arguments[:depth], "--json", *arguments[depth:])
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert bool(run.returncode) is fails, run.stderr
        assert run.stdout, (arguments, run.stderr)
        return json.loads(run.stdout.splitlines()[-1])

    folder = make_folder(tmp_path / "folder", seed=6)
    assert say("volume", "put", "daily", folder)["is_new"]
    assert not say("volume", "put", "daily", folder)["is_new"]
    (row,) = [volume for volume in say("volume", "ls")["volumes"] if volume["name"] == "daily"]
    assert (row["versions"], row["newest"]["files"]) == (1, 8)
    script = tmp_path / "train.py"
    script.write_text(
        "import os, pathlib; out = pathlib.Path(os.environ['POTLUCK_OUTPUT']) / 'deep'\n"
        "out.mkdir(); (out / 'model.pt').write_bytes(open('/data/large.bin', 'rb').read(1000))\n"
    )
    task = say("run", "--volume", "daily:/data", script)["id"]
    say("cp", f"{task}:deep/model.pt", f"{tmp_path}/here/")
    model = tmp_path / "here" / "model.pt"
    assert model.read_bytes() == (folder / "large.bin").read_bytes()[:1000]
    say("cp", model, "daily:models/")
    files = {
        file["path"]: file["size_bytes"]
        for file in say("volume", "show", "daily", "--files")["files"]
    }
    assert files["models/model.pt"] == 1000 and len(files) == 9
    # As `cp` does: a file gets the target's name, unless that is a directory.
    for source in (f"{task}:deep/model.pt", "daily:models/model.pt"):
        place = tmp_path / source.partition(":")[0] / "got.pt"
        assert say("cp", source, place)["files"] == [str(place)]
        assert place.read_bytes() == model.read_bytes()
    say("cp", "daily:models", tmp_path / "back")
    assert (tmp_path / "back" / "models" / "model.pt").read_bytes() == model.read_bytes()
    assert say("explain", task)["volumes"][0]["name"] == "daily"
    newest, oldest = say("volume", "show", "daily")["versions"]
    assert say("volume", "rm", f"daily@{oldest['version'][:10]}")["removed"]
    assert say("volume", "show", "daily")["versions"] == [newest]
    friend = Wallet("a friend").address
    assert say("volume", "share", "daily", friend)["volume"]["shared_with"] == [friend]
    assert say("volume", "share", "daily", friend, "--stop")["volume"]["shared_with"] == []
    kept_volume = say("volume", "keep", "daily", "--versions", "3", "--unused", "30d")["volume"]
    assert (kept_volume["keep_versions"], kept_volume["keep_seconds"]) == (3, 30 * 86_400)
    say("volume", "rm", "daily")
    # Mistakes get a sentence.
    for words, sentence in (
        (("volume", "rm", "daily"), "no volume"),
        (("volume", "put", "Daily", folder), "lower-case"),
        (("volume", "put", "daily", tmp_path / "missing"), "neither a folder"),
        (("cp", f"{task}:nothing.pt", tmp_path), "no file"),
        (("cp", model, tmp_path), "neither TASK:PATH"),
        (("cp", folder, "daily:"), "not a file"),
        (("run", "--volume", "daily:/data", script), "no volume"),
        (("run", "--volume", "daily:/etc/x", script), "cannot be mounted"),
        (("run", "--volume", "data:b:c:d", script), "plain names"),
    ):
        problem = say(*words, fails=True)["error"]
        assert sentence in problem["detail"], problem
