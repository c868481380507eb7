"""The templates on the real platform, as a person runs them: they compute, in the sandbox, through
OpenCL, with the packages that they name, and what they leave comes back.

Nothing comes from the network: the index is on loopback, and has what is installed here.
"""

import csv
import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, Finished, InProcess
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess
from tests.provider.dependencies.package_index import loopback_index
from tests.provider.dependencies.repacked_wheels import offer

PACKAGES = ("numpy", "pyopencl", "pytools", "platformdirs", "siphash24", "typing-extensions")

EXAMPLE = Path(__file__).parents[2] / "examples" / "hello_gpu.py"


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """Whose pool has one node, which installs from the index of the tests."""
    if not list(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        pytest.skip("PoCL is missing; scripts/test-needs.sh installs it")
    directory = tmp_path_factory.mktemp("templates")
    with ExitStack() as stack:
        index = stack.enter_context(loopback_index())
        offer(index, *PACKAGES)
        server = stack.enter_context(ServerProcess(directory))
        settings = {**FAST_PROVIDER, "POTLUCK_PROVIDER_INDEX_URL": index.url}
        stack.enter_context(ProviderProcess(directory / "node", server, **settings))
        yield InProcess(directory / "config", server.url, server.token)


def run(person: CommandLine, name: str, output: Path, **parameters: object) -> Finished:
    parameter_words = [
        word for key, value in parameters.items() for word in ("-p", f"{key}={value}")
    ]
    result = person.run("run", "--template", name, *parameter_words, "--output", output)
    assert result.status == 0, result.stderr
    return result


def test_a_picture_is_drawn_and_a_missing_library_is_reported(
    person: CommandLine, tmp_path: Path
) -> None:
    """Both in one, so that one platform is started for them. And an example that needs the same."""
    greeted = person.run("run", EXAMPLE)
    assert re.match(rb"Hello from Python 3.+\nCPU .+ GiB, \d+ compute units\n", greeted.stdout)
    run(person, "mandelbrot", tmp_path, width=60, height=40, steps=200)
    width, height, pixels = read_png((tmp_path / "mandelbrot.png").read_bytes())
    assert (width, height) == (60, 40)
    black = [pixels[offset : offset + 3] == b"\0\0\0" for offset in range(0, len(pixels), 3)]
    assert black[20 * 60 + 30], "the middle is inside"
    assert not black[0], "the corner is outside"
    assert 0.1 < sum(black) / len(black) < 0.25
    result = person.run("run", "--template", "torch-training")
    assert result.status == 1
    assert "torch" in result.stderr.splitlines()[-1], "the index of the tests has none"


@pytest.mark.long
def test_matrices_are_multiplied_and_the_product_comes_back(
    person: CommandLine, tmp_path: Path
) -> None:
    result = run(person, "matrix-product", tmp_path, size=100, rounds=1, save="yes")
    assert b"GFLOP/s" in result.stdout
    product = (tmp_path / "product.npy").read_bytes()
    assert product.startswith(b"\x93NUMPY") and len(product) > 4 * 100 * 100
    assert json.loads((tmp_path / "product.json").read_text())["gflops"] > 0


@pytest.mark.long
def test_the_k_means_template_finds_clusters(person: CommandLine, tmp_path: Path) -> None:
    result = run(person, "k-means", tmp_path, points=3000, clusters=3, dimensions=2)
    distance = float(result.stdout.decode().split("at most ")[1].split()[0])
    assert distance < 0.5
    with (tmp_path / "centres.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["points"]) for row in rows) == 3000


@pytest.mark.long
def test_the_device_is_measured(person: CommandLine, tmp_path: Path) -> None:
    run(person, "opencl-benchmark", tmp_path, seconds=0.05, megabytes=1)
    figures = json.loads((tmp_path / "benchmark.json").read_text())
    assert figures["float_gflops"] > 0 and figures["copy_gb_per_s"] > 0


def read_png(picture: bytes) -> tuple[int, int, bytes]:
    """Width, height and the colours of a picture whose rows are stored as they are."""
    width, height = struct.unpack(">II", picture[16:24])
    offset, packed = 8, b""
    while offset < len(picture):
        (length,) = struct.unpack(">I", picture[offset : offset + 4])
        if picture[offset + 4 : offset + 8] == b"IDAT":
            packed += picture[offset + 8 : offset + 8 + length]
        offset += 12 + length
    rows, size = zlib.decompress(packed), 3 * width + 1
    return width, height, b"".join(rows[row * size + 1 : (row + 1) * size] for row in range(height))
