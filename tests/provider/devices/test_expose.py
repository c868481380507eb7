"""What a task is shown of its devices, on machines that are made of files."""

import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.model.device import DeviceKind
from potluck.model.ids import DeviceId
from potluck.provider.detect.types import FoundDevice
from potluck.provider.expose.expose import expose, hide
from potluck.provider.expose.exposed import Exposed, HostPaths
from potluck.wire.provider import GrantedDevice

CARDS = "/sys/devices/pci0000:00/0000:00:01.0"


class Rig:
    """A made tree of /dev, /sys and /proc, and the devices that were found in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.found: dict[str, FoundDevice] = {}

    def node(self, *paths: str, mode: int = 0o666) -> None:
        for path in paths:
            self.file(path).chmod(mode)

    def file(self, path: str, text: str = "") -> Path:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def card(self, route: str, uuid: str, address: str, minor: int | None = None) -> None:
        """As /sys shows it: a directory, and links that lead to it."""
        place = self.root / f"{CARDS.lstrip('/')}/{address}"
        (place / "drm" / f"renderD{minor}").mkdir(parents=True)
        for links in ("sys/bus/pci/devices", "sys/class/drm", "sys/dev/char"):
            (self.root / links).mkdir(parents=True, exist_ok=True)
        (self.root / "sys/bus/pci/devices" / address).symlink_to(place)
        self.found[uuid] = device(route, uuid, address, minor)

    def expose(self, *uuids: str, is_walled: bool = True) -> Exposed:
        granted = [GrantedDevice(DeviceId("device_x"), uuid, 1000) for uuid in uuids]
        machine = HostPaths(self.root)
        return expose(granted, self.found, is_walled=is_walled, machine=machine)

    def describe(self, name: str, content: object, place: str = "etc/cdi") -> None:
        self.file(f"{place}/{name}", json.dumps(content))


def device(route: str, uuid: str, address: str = "", minor: int | None = None) -> FoundDevice:
    kind = DeviceKind.CPU if route == "cpu" else DeviceKind.GPU
    plain = FoundDevice(kind, route, f"{route} card", 2**30, route, uuid=uuid)
    return replace(plain, bus_address=address, route=route, minor=minor)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def nodes(exposed: Exposed) -> list[str]:
    return sorted(node.target for node in exposed.device_nodes)


def mounts(exposed: Exposed) -> list[str]:
    return sorted(mount.target for mount in exposed.mounts)


@pytest.fixture
def nvidia(rig: Rig) -> Rig:
    """Three cards, whose nodes are not numbered as they are listed."""
    rig.node("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")
    for number, minor in enumerate((2, 0, 1)):
        rig.card("nvidia", f"GPU-{number}", f"0000:0{number + 1}:00.0", minor)
        rig.node(f"/dev/nvidia{minor}")
        rig.file(f"/proc/driver/nvidia/gpus/0000:0{number + 1}:00.0/information")
    rig.file("/proc/driver/nvidia/version")
    return rig


def test_a_processor_comes_with_no_card_at_all(nvidia: Rig) -> None:
    nvidia.found["cpu-1"] = device("cpu", "cpu-1")
    exposed = nvidia.expose("cpu-1")
    assert exposed == hide([])
    assert (exposed.device_nodes, exposed.mounts, exposed.problems) == ((), (), ())
    assert exposed.environment == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "ROCR_VISIBLE_DEVICES": "-1",
        "HIP_VISIBLE_DEVICES": "-1",
        "ONEAPI_DEVICE_SELECTOR": "*:cpu",
    }


def test_nvidia_cards_are_exposed_with_only_their_own_nodes(nvidia: Rig) -> None:
    exposed = nvidia.expose("GPU-0", "GPU-2")
    common = ["/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    assert nodes(exposed) == [*common, "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidiactl"]
    assert exposed.environment["CUDA_VISIBLE_DEVICES"] == "GPU-0,GPU-2"
    assert exposed.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-0,GPU-2"
    assert exposed.environment["HIP_VISIBLE_DEVICES"] == "-1"
    shown_paths = [path for path in mounts(exposed) if "0000:0" in path]
    gpus_path = "/proc/driver/nvidia/gpus"
    assert shown_paths == [
        *(f"{gpus_path}/0000:01:00.0", f"{gpus_path}/0000:03:00.0"),
        *(f"{CARDS}/0000:01:00.0", f"{CARDS}/0000:03:00.0"),
    ]
    assert "/proc/driver/nvidia/version" in mounts(exposed)
    assert exposed.problems == ()


def test_a_missing_node_is_a_problem_with_a_remedy(nvidia: Rig) -> None:
    (nvidia.root / "dev/nvidia-uvm").unlink()
    (nvidia.root / "dev/nvidia0").unlink()
    problems = nvidia.expose("GPU-1").problems
    assert len(problems) == 2
    assert problems[0].startswith("/dev/nvidia0 does not exist")
    assert "nvidia-modprobe" in problems[1]


def test_a_part_of_a_card_comes_with_its_capabilities(nvidia: Rig) -> None:
    part = device("nvidia", "MIG-1", "0000:02:00.0", 0)
    nvidia.found["MIG-1"] = replace(part, is_partition=True, gpu_instance=9, compute_instance=0)
    instance = "/proc/driver/nvidia/capabilities/gpu0/mig/gi9"
    nvidia.file(f"{instance}/access", "DeviceFileMinor: 84\nDeviceFileMode: 292\n")
    nvidia.file(f"{instance}/ci0/access", "DeviceFileMinor: 85\n")
    nvidia.file("/proc/driver/nvidia/capabilities/gpu0/mig/gi7/access", "DeviceFileMinor: 66\n")
    for number in (66, 84, 85):
        nvidia.node(f"/dev/nvidia-caps/nvidia-cap{number}")
    exposed = nvidia.expose("MIG-1")
    shown_paths = [path for path in nodes(exposed) if "caps" in path]
    assert shown_paths == ["/dev/nvidia-caps/nvidia-cap84", "/dev/nvidia-caps/nvidia-cap85"]
    assert "/dev/nvidia0" in nodes(exposed)
    assert instance in mounts(exposed)
    assert exposed.environment["CUDA_VISIBLE_DEVICES"] == "MIG-1"


def test_without_the_drivers_nodes_there_is_a_problem(rig: Rig) -> None:
    """A task that pays for a card does not begin without it."""
    rig.card("nvidia", "GPU-0", "0000:01:00.0", 0)
    assert "/dev/nvidiactl does not exist" in rig.expose("GPU-0").problems[0]


def test_in_windows_one_node_is_exposed_to_tasks_with_all_cards(rig: Rig) -> None:
    rig.card("nvidia", "GPU-0", "0000:01:00.0", 0)
    rig.node("/dev/dxg")
    exposed = rig.expose("GPU-0")
    assert (nodes(exposed), exposed.problems) == (["/dev/dxg"], ())
    rig.card("nvidia", "GPU-1", "0000:02:00.0", 1)
    assert "all cards" in rig.expose("GPU-0").problems[0]
    assert rig.expose("GPU-0", "GPU-1").problems == ()


@pytest.fixture
def amd(rig: Rig) -> Rig:
    rig.node("/dev/kfd", "/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/dri/card0")
    rig.card("amd", "amd-0", "0000:03:00.0", 128)
    rig.card("amd", "amd-1", "0000:04:00.0", 129)
    for directory in ("sys/class/kfd", "sys/devices/virtual/kfd/kfd"):
        (rig.root / directory).mkdir(parents=True)
    return rig


def test_amd_cards_come_with_their_render_nodes(amd: Rig) -> None:
    exposed = amd.expose("amd-1")
    assert nodes(exposed) == ["/dev/dri/renderD129", "/dev/kfd"]
    assert mounts(exposed) == [
        "/sys/bus/pci/devices",
        "/sys/class/drm",
        "/sys/class/kfd",
        "/sys/dev/char",
        f"{CARDS}/0000:04:00.0",
        "/sys/devices/virtual/kfd",
    ]
    # It is the only one inside, so it is the first.
    assert exposed.environment["ROCR_VISIBLE_DEVICES"] == "0"
    assert exposed.environment["HIP_VISIBLE_DEVICES"] == "0"
    assert exposed.environment["CUDA_VISIBLE_DEVICES"] == "0", "which HIP obeys too"


def test_without_walls_numbers_count_all_cards(amd: Rig) -> None:
    exposed = amd.expose("amd-1", is_walled=False)
    assert exposed.environment["ROCR_VISIBLE_DEVICES"] == "1"
    assert exposed.environment["HIP_VISIBLE_DEVICES"] == "0", "of what is left over"


def test_intel_and_unknown_cards_come_with_a_render_node(rig: Rig) -> None:
    rig.node("/dev/dri/renderD128", "/dev/dri/renderD129")
    rig.card("intel", "intel-0", "0000:00:02.0", 128)
    rig.card("opencl", "other-0", "0000:05:00.0", 129)
    intel = rig.expose("intel-0")
    assert nodes(intel) == ["/dev/dri/renderD128"]
    assert intel.environment["ZE_AFFINITY_MASK"] == "0"
    other = rig.expose("other-0")
    assert nodes(other) == ["/dev/dri/renderD129"]
    assert other.environment == hide([]).environment


def test_cards_that_only_opencl_knows_have_their_vendor(rig: Rig) -> None:
    rig.node("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia5", "/dev/dri/renderD130")
    information_path = "/proc/driver/nvidia/gpus/0000:07:00.0/information"
    rig.file(information_path, "Model: \t X\nDevice Minor: \t 5\n")
    nvidia = replace(device("opencl", "", "0000:07:00.0"), vendor="NVIDIA Corporation")
    intel = replace(device("opencl", ""), vendor="Intel(R) Corporation")
    rig.found |= {"hash-1": nvidia, "hash-2": intel}
    assert "/dev/nvidia5" in nodes(rig.expose("hash-1"))
    assert rig.expose("hash-1").environment["CUDA_VISIBLE_DEVICES"] == "0"
    assert nodes(rig.expose("hash-2")) == ["/dev/dri/renderD130"], "the only one there is"
    assert rig.expose("hash-2").environment["ZE_AFFINITY_MASK"] == "0"
    rig.node("/dev/dri/renderD131")
    (problem,) = rig.expose("hash-2").problems
    assert problem == "The node of opencl card in /dev/dri cannot be identified."
    assert rig.expose("hash-2", is_walled=False).problems == (), "where all is there"


def test_cards_of_two_vendors_come_together(nvidia: Rig) -> None:
    nvidia.node("/dev/kfd", "/dev/dri/renderD200")
    nvidia.card("amd", "amd-0", "0000:09:00.0", 200)
    exposed = nvidia.expose("GPU-1", "amd-0")
    assert {"/dev/nvidia0", "/dev/dri/renderD200"} <= set(nodes(exposed))
    assert exposed.environment["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert exposed.environment["HIP_VISIBLE_DEVICES"] == "0"


def test_a_node_that_may_not_be_opened_says_who_may(amd: Rig) -> None:
    amd.node("/dev/dri/renderD128", mode=0o600)
    if os.geteuid() != 0:
        amd.node("/dev/dri/renderD128", mode=0o000)
    (problem,) = amd.expose("amd-0").problems
    assert problem.startswith("Only the group ") and "may open /dev/dri/renderD128" in problem
    assert "usermod -aG" in problem


def test_a_device_that_is_gone_is_a_problem(nvidia: Rig) -> None:
    assert nvidia.expose("GPU-9").problems == ("This node no longer has the device GPU-9.",)


def specification(kind: str, *names: str, node: str = "/dev/nvidia0") -> dict[str, object]:
    return {
        "cdiVersion": "0.6.0",
        "kind": kind,
        "annotations": {"anything": "else"},
        "containerEdits": {
            "env": ["NVIDIA_VISIBLE_DEVICES=void", "VENDOR=says=so"],
            "deviceNodes": [{"path": "/dev/nvidiactl", "hostPath": "/dev/zero"}],
            "hooks": [{"hookName": "createContainer", "path": "/bin/false"}],
            "mounts": [
                {"hostPath": "/etc/hostname", "containerPath": "/opt/vendor/x", "options": ["rw"]},
                {"hostPath": "/etc/hostname", "containerPath": "/work/x"},
                {"hostPath": "/etc/hostname", "containerPath": "/opt/../etc/passwd"},
                {"hostPath": "/usr/bin/env", "containerPath": "/usr/bin/env"},
                {"hostPath": "/dev/null", "containerPath": "/opt/vendor/socket"},
                {"hostPath": "/nowhere", "containerPath": "/opt/vendor/missing"},
            ],
        },
        "devices": [
            {
                "name": name,
                "containerEdits": {
                    "deviceNodes": [
                        {"path": node, "hostPath": "/dev/null", "permissions": "rw"},
                        {"path": "/dev/dri/card0", "hostPath": "/dev/null"},
                        {"path": "/dev/../etc/shadow", "hostPath": "/dev/null"},
                    ]
                },
            }
            for name in names
        ],
    }


@pytest.mark.parametrize("name", ["GPU-1", "0"], ids=["by its uuid", "by its node"])
def test_container_device_interface_files_are_preferred(nvidia: Rig, name: str) -> None:
    nvidia.describe("nvidia.json", specification("nvidia.com/gpu", "all", name))
    exposed = nvidia.expose("GPU-1")
    shown_nodes = {node.target: str(node.source) for node in exposed.device_nodes}
    assert shown_nodes == {"/dev/nvidiactl": "/dev/zero", "/dev/nvidia0": "/dev/null"}
    own_mounts = [
        path for path in mounts(exposed) if not path.startswith(("/sys/", "/proc/driver/"))
    ]
    assert own_mounts == ["/opt/vendor/x"], "nothing in the sandbox's own places"
    assert not any(mount.writable for mount in exposed.mounts)
    assert exposed.environment["VENDOR"] == "says=so"
    assert exposed.environment["NVIDIA_VISIBLE_DEVICES"] == "GPU-1", "ours is the last word"


def test_descriptions_of_other_devices_and_broken_ones_are_passed_over(nvidia: Rig) -> None:
    nvidia.describe("a.json", specification("amd.com/gpu", "GPU-1"))
    nvidia.describe("b.json", specification("nvidia.com/gpu", "GPU-0", node="/dev/nvidia2"))
    nvidia.file("etc/cdi/c.json", "kind: nvidia.com/gpu\n")
    nvidia.file("etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n")
    assert "/dev/nvidia-uvm" in nodes(nvidia.expose("GPU-1")), "as without any"


@pytest.mark.parametrize("other", ["/dev/nvidia2", "/dev/dri/renderD129"])
def test_a_description_of_several_cards_is_not_taken_for_one_of_them(
    nvidia: Rig, other: str
) -> None:
    pair = [{"path": path} for path in ("/dev/nvidia0", "/dev/dri/renderD128", other)]
    device = {"name": "pair", "containerEdits": {"deviceNodes": pair}}
    nvidia.describe("nvidia.json", {"kind": "nvidia.com/gpu", "devices": [device]})
    assert other not in nodes(nvidia.expose("GPU-1"))


def test_a_description_made_since_the_boot_has_the_last_word(nvidia: Rig) -> None:
    nvidia.describe("nvidia.json", specification("nvidia.com/gpu", "GPU-1"))
    newer = specification("nvidia.com/gpu", "GPU-1", node="/dev/nvidia7")
    nvidia.describe("nvidia.json", newer, "var/run/cdi")
    assert "/dev/nvidia7" in nodes(nvidia.expose("GPU-1"))


def test_everybody_is_shown_how_the_processors_lie(rig: Rig) -> None:
    rig.found["cpu"] = device("cpu", "cpu")
    assert mounts(rig.expose("cpu")) == []
    rig.file("/sys/devices/system/cpu/online", "0-1\n")
    assert mounts(rig.expose("cpu")) == ["/sys/devices/system/cpu"]
    assert mounts(rig.expose("cpu", is_walled=False)) == []
