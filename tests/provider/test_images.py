"""Which images a provider runs, for whom, and what it tells the pool of that."""

import os
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from potluck.cli.doctor.finding import CheckResult
from potluck.cli.doctor.sandbox import check_containers
from potluck.model.device import DeviceDescription, DeviceKind
from potluck.model.error import SandboxUnavailable
from potluck.model.ids import AccountId
from potluck.model.node import SandboxReport
from potluck.model.task import MIB
from potluck.model.task_spec import ContainerSpec
from potluck.model.terms import TaskKind
from potluck.provider.dependencies.preparer import Preparer
from potluck.provider.devices.offer import NodeOffer
from potluck.provider.egress.egress import Egress
from potluck.provider.execution import Execution
from potluck.provider.files.cache import FileCache
from potluck.provider.files.volume_cache import VolumeCache
from potluck.provider.owner.live_rules import OwnerRules
from potluck.provider.sandbox.choose import WithImages
from potluck.provider.sandbox.docker.work_directory import (
    CONTAINER_DISKS,
    DIRECTORY,
    ContainerWork,
    remove_run_directories,
)
from potluck.provider.sandbox.driver import PLAIN_KINDS, Confinement, Output, RunOutcome
from potluck.provider.sandbox.driver import make_trial as a_run
from potluck.provider.sandbox.unconfined_run import UnconfinedDriver
from potluck.provider.sandbox.work_disk import DirectoryDisk
from potluck.wire.provider import Grant
from tests.provider.builders import ACCOUNT, a_grant, settings_for

STRANGER = AccountId("account_01j00000000000000000000009")
IN_CONTAINERS = SandboxReport(
    "docker", "watchdog", "watchdog", kinds=tuple(TaskKind), notes=("containers by Docker 1",)
)
IN_BUBBLEWRAP = SandboxReport("bwrap", "watchdog", "watchdog", kinds=PLAIN_KINDS)
CPU = DeviceDescription(DeviceKind.CPU, "CPU-1", "AMD", "EPYC", 2**30)


def rules_of(directory: Path, text: str) -> OwnerRules:
    path = directory / "provider.toml"
    path.write_text(text)
    rules = OwnerRules(path, settings_for("http://127.0.0.1:1", directory))
    rules.know([CPU])
    return rules


def naming(image: str) -> Grant:
    return replace(a_grant(), spec=ContainerSpec(image))


@pytest.mark.parametrize(
    ("text", "image", "is_taken_of_owner", "others"),
    [
        ("", "secret/app", True, False),  # what lies there is its owner's
        ('images = ["python:*"]', "python:3.12", True, True),
        ('images = ["python:*"]', "python-evil", True, False),
        ('images = ["python:*"]', "PYTHON:3.12", True, False),
        ('images = ["ghcr.io/me/*", "*:open"]', "x:open", True, True),
        ('images = ["*"]', "anything", True, True),
        ('images = ["a*"]', "a1b2c3d4", True, False),  # the number of any image, perhaps
        ('images = ["sha*"]', "sha256:a1b2", True, False),
        ('images = ["*"]', "a1b2c3d4", True, True),
        ('images = ["*"]\ncontainers = false', "anything", False, False),
    ],
)
def test_others_get_the_images_that_an_owner_names(
    tmp_path: Path, text: str, image: str, is_taken_of_owner: bool, others: bool
) -> None:
    rules = rules_of(tmp_path, text)
    assert (rules.may_run(ACCOUNT, naming(image)) is None) is is_taken_of_owner
    why_not = rules.may_run(STRANGER, naming(image))
    assert (why_not is None) is others
    assert others or (image in str(why_not)) is is_taken_of_owner


def test_fetching_is_off_until_the_owner_says_so(tmp_path: Path) -> None:
    assert not rules_of(tmp_path, "").limits.pulls_images
    assert rules_of(tmp_path, "pull_images = true").limits.pulls_images


def test_images_are_offered_unless_the_owner_refuses_them(tmp_path: Path) -> None:
    settings = settings_for("http://127.0.0.1:1", tmp_path)
    rules = rules_of(tmp_path, "")
    description = NodeOffer(settings, [CPU], IN_BUBBLEWRAP, rules, IN_CONTAINERS).describe()
    assert (description.sandbox, description.containers) == (IN_BUBBLEWRAP, IN_CONTAINERS)
    rules = rules_of(tmp_path, "containers = false")
    without = NodeOffer(settings, [CPU], IN_BUBBLEWRAP, rules, IN_CONTAINERS).describe()
    assert (without.sandbox, without.containers) == (IN_BUBBLEWRAP, None)
    inside = NodeOffer(settings, [CPU], IN_CONTAINERS, rules).describe()
    assert inside.sandbox.kinds == PLAIN_KINDS


@pytest.mark.parametrize(
    ("sandbox", "containers", "script", "image"),
    [
        (IN_BUBBLEWRAP, IN_CONTAINERS, True, True),
        (IN_BUBBLEWRAP, replace(IN_CONTAINERS, memory="none"), True, False),
        (replace(IN_CONTAINERS, processes="none"), None, False, False),
        (replace(IN_BUBBLEWRAP, driver="none"), None, False, False),
    ],
)
async def test_the_provider_itself_refuses_others_where_a_limit_is_missing(
    tmp_path: Path,
    sandbox: SandboxReport,
    containers: SandboxReport | None,
    script: bool,
    image: bool,
) -> None:
    parts = cast(Preparer, None), cast(FileCache, None), cast(Egress, None)
    execution = Execution(Recorder(), *parts, VolumeCache(tmp_path, 0), sandbox, containers)
    for grant, others in ((a_grant(), script), (naming("busybox"), image)):
        assert execution.why_own_only(ACCOUNT, grant) is None, "its owner's tasks are taken"
        assert (execution.why_own_only(STRANGER, grant) is None) is others


class Recorder(UnconfinedDriver):
    """A driver that only notes what it was to run."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"), "test")
        self.images: list[str | None] = []

    async def run(self, confinement: Confinement, output: Output, *_: object) -> RunOutcome:
        self.images.append(confinement.image)
        raise SandboxUnavailable("It runs nothing.")


async def test_only_tasks_that_name_an_image_run_in_the_engine(tmp_path: Path) -> None:
    async def unheard(_: str, __: bytes) -> None: ...

    plain, images = Recorder(), Recorder()
    for image in (None, "busybox"):
        with pytest.raises(SandboxUnavailable, match="runs nothing"):
            await WithImages(plain, images, tmp_path).run(replace(a_run("a"), image=image), unheard)
    assert (plain.images, images.images) == ([None], ["busybox"])
    with pytest.raises(SandboxUnavailable, match="no container engine"):
        await WithImages(plain, None, tmp_path).run(replace(a_run("a"), image="busybox"), unheard)


async def test_directories_of_an_earlier_process_are_removed_without_its_engine(
    tmp_path: Path,
) -> None:
    disk = DirectoryDisk(tmp_path / CONTAINER_DISKS / "some", MIB)
    work = ContainerWork(tmp_path / DIRECTORY / "run", MIB, disk)
    (work.path / "large").write_bytes(bytes(1000))
    os.close(work.descriptor)
    try:
        await WithImages(UnconfinedDriver(tmp_path, "test"), None, tmp_path).reap()
        assert list((tmp_path / DIRECTORY).iterdir()) == []
        assert list((tmp_path / CONTAINER_DISKS).iterdir()) == []
    finally:
        remove_run_directories(tmp_path / DIRECTORY)


def test_the_doctor_names_the_container_engine() -> None:
    finding = check_containers(IN_BUBBLEWRAP, IN_CONTAINERS)
    assert (finding.verdict, "Docker 1" in finding.found) == (CheckResult.OK, True)
    assert check_containers(IN_CONTAINERS, None).verdict is CheckResult.OK
    assert check_containers(IN_BUBBLEWRAP, None).verdict is CheckResult.SKIPPED
