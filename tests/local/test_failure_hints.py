"""Known causes of failures say what to do; what a node writes is only matched, never obeyed."""

from pathlib import Path

import pytest

from potluck.local.failure_hints import CAUSES, find_hint
from potluck.local.task_options import OPTIONS
from potluck.model.task import EndReason

EXIT = EndReason.EXIT_STATUS


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.mark.parametrize(
    ("reason", "text", "on_command_line", "in_python"),
    [
        (EXIT, "ModuleNotFoundError: No module named 'yaml.x'", '["pyyaml"]', '=["pyyaml"]'),
        (EXIT, "python: No module named numpy", '["numpy"]', "dependencies="),
        (EXIT, "[Errno -3] Temporary failure in name resolution", "no network", "no network"),
        (EXIT, "curl: (6) Could not resolve host: x", "no network", "no network"),
        (EXIT, "torch.cuda.OutOfMemoryError: CUDA out of memory.", "--vram", "vram="),
        (EXIT, "MemoryError", "--ram", "ram="),
        (EndReason.MEMORY_LIMIT, "", "--ram", "ram="),
        (EXIT, "OSError: [Errno 28] No space left on device", "--disk", "disk="),
        (EndReason.DISK_LIMIT, "it filled its disk", "--disk", "disk="),
        (EndReason.TIME_LIMIT, "", "--time", "time="),
    ],
)
def test_a_known_cause(reason: EndReason, text: str, on_command_line: str, in_python: str) -> None:
    assert on_command_line in find_hint(reason, text)
    assert in_python in find_hint(reason, text, is_python=True)


def test_an_unknown_cause_has_no_hint() -> None:
    assert find_hint(EXIT, "ValueError: no") == ""
    assert find_hint(EndReason.PREPARE_FAILED, "Could not resolve host: pypi") == "", "not a task's"
    assert find_hint(EXIT, "No module named '\x1b]52;'") == "", "not a name"


def test_a_missing_file_that_exists_here(directory: Path) -> None:
    (directory / "data.csv").write_text("1\n")
    (directory.parent / "secret.txt").write_text("1\n")

    def hint(path: str) -> str:
        text = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}'"
        return find_hint(EXIT, text)

    assert "--file data.csv" in hint("data.csv")
    assert "open the file by its name alone" in hint(str(directory / "data.csv"))
    assert hint("other.csv") == ""
    assert hint("../secret.txt") == hint(str(directory.parent / "secret.txt")) == ""


def test_hints_name_options_that_exist() -> None:
    for cause in CAUSES:
        words = cause.for_command.replace(",", " ").replace(":", " ").replace(".", " ").split()
        named_options = {word.removeprefix("--") for word in words if word.startswith("--")}
        assert named_options <= {*OPTIONS, "with"}, named_options  # as --dependencies is typed


def test_every_limit_names_the_option_that_raises_it() -> None:
    options = {
        EndReason.MEMORY_LIMIT: "ram",
        EndReason.DISK_LIMIT: "disk",
        EndReason.PROCESS_LIMIT: "processes",
        EndReason.TIME_LIMIT: "time",
        EndReason.PREPARE_TIME_LIMIT: "prepare-time",
        EndReason.NETWORK_LIMIT: "network-limit",
    }
    limits = {reason for reason in EndReason if reason.endswith("_limit")}
    assert limits == {*options, EndReason.LOG_LIMIT}, "the log names its option where it is cut"
    for reason, name in options.items():
        assert f"--{OPTIONS[name].name}" in find_hint(reason, "")
        assert f"{OPTIONS[name].keyword}=" in find_hint(reason, "", is_python=True)
