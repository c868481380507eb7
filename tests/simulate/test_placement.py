"""How much of a pool a placement fills: by the command, on traces of our own and public ones."""

import json
import re
from pathlib import Path

import pytest

from potluck.cli.main import execute
from potluck.decide.placement import PLACEMENTS
from potluck.decide.placement.fragmentation import Fragmentation
from potluck.model.error import InvalidInput
from potluck.simulate.openb import Trace, gpu_milli, read_openb
from potluck.simulate.placement import arrivals, fill_pool
from tests.public_data import shared_folder

NODES = "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(
    f"node-{number},{8000 * gpus},{32768 * gpus},{gpus},{model}\n"
    for number, (gpus, model) in enumerate([(8, "G2"), (4, "T4"), (2, "P100"), (8, "G2")] * 5)
)
HEAD = "name,cpu_milli,memory_mib,num_gpu,gpu_milli"
TASKS = [
    # (cores in thousandths, memory, GPUs, thousandths of each, models) and how many of them
    ((6000, 16384, 1, 1000, ""), 50),
    ((3000, 8192, 1, 810, ""), 20),
    ((4000, 8192, 1, 470, ""), 30),
    ((2000, 4096, 1, 160, "T4|P100"), 20),
    ((30000, 65536, 4, 1000, "G2"), 4),
    ((8000, 16384, 0, 0, ""), 10),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    rows = [row for row, count in TASKS for _ in range(count)]
    spec = [f"t{n}," + ",".join(map(str, row)) for n, row in enumerate(rows)]
    plain = [line.rsplit(",", 1)[0] for line in spec]
    (tmp_path / "openb_pod_list_small.csv").write_text("\n".join([HEAD + ",gpu_spec", *spec]))
    (tmp_path / "openb_pod_list_plain.csv").write_text("\n".join([HEAD, *plain]))
    return tmp_path


def run(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert execute(["simulate", "placement", *map(str, arguments)]) == 0
    return capfd.readouterr().out


def test_the_figures_as_json(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["--trace", folder, "--list", "small", "--seeds", "1-3", "--json"]
    report = json.loads(run(capfd, *arguments))
    assert report["policy"] == "fragmentation"
    assert [seed_result["seed"] for seed_result in report["per_seed"]] == [1, 2, 3]
    for key in ("allocated_at_100", "allocated_at_130"):
        mean = sum(seed_result[key] for seed_result in report["per_seed"]) / 3
        assert report[key] == pytest.approx(mean) and 50 < mean <= 100
    assert json.loads(run(capfd, *arguments)) == report, "the same seeds give the same figures"


def test_a_list_without_models_and_policies_side_by_side(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    chart = folder / "chart.svg"
    policies = [part for name in sorted(PLACEMENTS) for part in ("--policy", name)]
    output = run(
        capfd,
        *("--trace", folder, "--list", "openb_pod_list_plain.csv", "--seeds", 7, "--learn"),
        *("--plot", chart, *policies),
    )
    assert all(re.search(rf"^{name} +\d+\.\d\d %", output, re.MULTILINE) for name in PLACEMENTS)
    picture = chart.read_text()
    assert picture.count("<polyline") == len(PLACEMENTS) and "spread" in picture


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--list", "none"], "openb_pod_list_small.csv"),
        (["--list", "small", "--seeds", "9-3"], "--seeds 42-51"),
        (["--list", "small", "--policy", "wishful"], "Available: best-fit"),
        (["--list", "small", "--plot", "filled.png"], "ends in .svg"),
    ],
)
def test_impossible_requests_are_reported(
    folder: Path, capfd: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert execute(["simulate", "placement", "--trace", str(folder), *arguments]) != 0
    assert sentence in capfd.readouterr().err


def test_a_list_that_is_none_is_refused(folder: Path) -> None:
    (folder / "openb_pod_list_odd.csv").write_text("name,cpu\nx,1\n")
    with pytest.raises(InvalidInput, match=r"openb_pod_list_odd\.csv has no column num_gpu"):
        read_openb(folder, "odd")


@pytest.mark.parametrize(
    "line", ["x,y", "x,1,1,one,1", "x,-5,1,1,1", "x,1,-6,1,1", "x,1,1,1,9999", "x,1,1,-1,1"]
)
def test_a_bad_line_of_a_list_is_named(folder: Path, line: str) -> None:
    (folder / "openb_pod_list_odd.csv").write_text(f"{HEAD}\nx,1,1,1,1\n{line}\n")
    with pytest.raises(InvalidInput, match=r"Line 3 of openb_pod_list_odd\.csv"):
        read_openb(folder, "odd")


def test_tasks_come_until_they_ask_for_enough(folder: Path) -> None:
    trace = read_openb(folder, "small")
    tasks = arrivals(trace, 5)
    total_milli = sum(map(gpu_milli, tasks))
    assert total_milli >= 1.3 * trace.gpu_milli > total_milli - gpu_milli(tasks[-1])
    assert sorted(map(repr, tasks[: len(trace.tasks)])) == sorted(map(repr, trace.tasks))
    assert arrivals(trace, 5) == tasks != arrivals(trace, 6)


@pytest.fixture(scope="module")
def openb(request: pytest.FixtureRequest) -> Trace:
    return read_openb(shared_folder(request.config, "traces") / "openb", "default")


def test_the_default_placement_fills_what_it_should(openb: Trace) -> None:
    """One seed, of which the figures are known: better than promised, and not to get worse."""
    curve = fill_pool(openb, Fragmentation(), 42, is_mix_known=True)
    assert curve[100].allocated_percent >= 95.8
    assert curve[130].allocated_percent >= 95.9


def test_a_mix_that_is_learned_on_the_way_is_nearly_as_good(openb: Trace) -> None:
    curve = fill_pool(openb, Fragmentation(), 43, is_mix_known=False)
    assert curve[100].allocated_percent >= 95.7


@pytest.mark.long
@pytest.mark.parametrize("name", ["default", "cpu100", "gpushare40", "gpuspec10", "multigpu20"])
def test_placement_is_at_least_as_good_as_published_and_as_first_fit(
    request: pytest.FixtureRequest, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    folder = shared_folder(request.config, "traces") / "openb"
    lines = (folder / "published.csv").read_text().splitlines()
    columns = lines[0].split(",")
    (row,) = [line.split(",") for line in lines if line.startswith(f"{name},06-FGD")]
    published = dict(zip(columns, row, strict=True))
    both = json.loads(
        run(
            capfd,
            *("--trace", folder, "--list", name, "--json"),
            *("--policy", "fragmentation", "--policy", "first-fit"),
        )
    )
    own_figures, first_fit = both
    for percent in (100, 130):
        key = f"allocated_at_{percent}"
        assert own_figures[key] >= first_fit[key]
        assert own_figures[key] >= float(published[f"alloc_at_{percent}"])
