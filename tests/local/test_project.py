"""Defaults from a project: which file counts, who wins, what may be said, each mistake named."""

import os
from pathlib import Path
from typing import Any

import pytest

from potluck.local.project import nearest_project, project_defaults
from potluck.local.task_options import OPTIONS, OptionSource
from potluck.model.error import InvalidInput

BLOCK = "# /// script\n# dependencies = []\n#\n# [tool.potluck]\n{}# ///\nprint(1)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "work" / "project"
    (path / "src").mkdir(parents=True)
    monkeypatch.chdir(path)
    return path


def write(project: Path, *lines: str) -> None:
    text = "\n".join(["[project]", 'name = "p"', "", "[tool.potluck]", *lines])
    (project / "pyproject.toml").write_text(text + "\n")


def said(project: Path, *block: str) -> dict[str, Any]:
    """By the script, if it says anything, and by the project."""
    source = BLOCK.format("".join(f"# {line}\n" for line in block)) if block else "print(1)"
    defaults = project_defaults(project / "src" / "job.py", source, project / "src")
    return {default.key: (default.value, default.where) for default in defaults}


VALUES = [
    # (what stands in the file, what is as good as typed)
    ("gpu = 2", "gpu", 2),
    ('gpu = "a100:2"', "gpu", "a100:2"),
    ("gpu = true", "gpu", 1),
    ('vram = "24GB"', "vram", "24GB"),
    ("ram = 1073741824", "ram", "1073741824"),
    ("max_price = 0.5", "max-price", "0.5"),
    ("fraction = 0.25", "fraction", "0.25"),
    ("time = 90", "time", "90s"),
    ('time = "1h30m"', "time", "1h30m"),
    ("capability = 8.6", "capability", "8.6"),
    ('label = "fast"', "label", ["fast"]),
    ('label = ["fast", "region=eu"]', "label", ["fast", "region=eu"]),
    ('env = { SEED = 1, MODE = "x" }', "env", ["SEED=1", "MODE=x"]),
    ('env = ["A=1"]', "env", ["A=1"]),
    ("min-reliability = 1", "min-reliability", 1.0),
    ("share = true", "share", True),
    ('sandbox = "kernel"', "sandbox", "kernel"),
    ('notify = ["bell", "desktop"]', "notify", ["bell", "desktop"]),
]


@pytest.mark.parametrize(("line", "key", "value"), VALUES, ids=[row[0] for row in VALUES])
def test_values_are_taken_as_they_would_be_typed(
    project: Path, line: str, key: str, value: object
) -> None:
    write(project, line)
    assert said(project) == {key: (value, "pyproject.toml, line 5")}


MISTAKES = [
    # (what stands in the file, the sentence, what helps)
    ("gpus = 1", "line 5: there is no option 'gpus'", "Did you mean gpu?"),
    ("retries = 3", "there is no option 'retries'", "Did you mean attempts?"),
    ("modle = 'x'", "there is no option 'modle'", "Did you mean model?"),
    ('gpu = ":2"', "line 5: gpu ':2' is not a number of GPUs up to 64", "a100:2"),
    ("gpu = 65", "gpu 65 is not a number of GPUs", "a100:2"),
    ("gpu = 1.5", "gpu 1.5 is not a number of GPUs", "a100:2"),
    ("model = 4090", "line 5: model must be a string", "in quotes"),
    ('volume = "data:/in:ro"', "a volume is always read-only", "Leave out"),
    ('vram = "much"', "line 5: vram", ""),
    ('time = "soon"', "line 5: time", ""),
    ("max-price = -1", "line 5: max-price", ""),
    ("label = [1]", "line 5: label must be a string", "in quotes"),
    ('share = "yes"', "share must be true or false", "without quotes"),
    ("min-reliability = 2", "must be a number from 0 to 1", "0.95"),
    ('sandbox = "steel"', "sandbox cannot be 'steel'", "Choose from: "),
    ('notify = "https://evil.example"', "notify cannot be", "Choose from: bell"),
    ("env = { A = [] }", "line 5: env: A must be a string or a number", "quotes"),
    ('secret = ["TOKEN"]', "line 5: secret cannot be set in a file", "Type it: --secret"),
    ('trust = ["0x1"]', "trust cannot be set in a file", "--trust"),
    ("secrets-to-strangers = true", "cannot be set in a file", "--secrets-to-strangers"),
    ('file = ["../secret.txt"]', "line 5: file is outside the project", "type --file"),
    ('file = ["/etc/passwd:p"]', "file is outside the project", "type --file"),
    ('folder = "/"', "folder is outside the project", "type --folder"),
    ('output = "../../out"', "output is outside the project", "type --output"),
    ("max-price = 1\nmax_price = 2", "max-price is set twice", "Remove one"),
    ("gpu = ", "is not valid TOML", "Correct it"),
]


@pytest.mark.parametrize(("lines", "sentence", "hint"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_named_by_file_line_and_key(
    project: Path, lines: str, sentence: str, hint: str
) -> None:
    write(project, lines)
    with pytest.raises(InvalidInput) as raised:
        said(project)
    assert sentence in raised.value.detail and "pyproject.toml" in raised.value.detail
    assert hint in raised.value.hint and raised.value.hint


def test_the_scripts_word_goes_before_the_projects(project: Path) -> None:
    write(project, "gpu = 1", 'vram = "8GB"', 'env = { A = "p", B = "p" }')
    defaults = said(project, "gpu = 2", 'env = { B = "s" }')
    assert defaults["gpu"] == (2, "job.py, line 5")
    assert defaults["vram"] == ("8GB", "pyproject.toml, line 6")
    assert defaults["env"][0] == ["A=p", "B=p", "B=s"]


def test_a_script_may_lower_the_price_and_not_raise_it(project: Path) -> None:
    write(project, "max-price = 0.5")
    assert said(project, "max-price = 2")["max-price"] == ("0.5", "pyproject.toml, line 5")
    assert said(project, "max-price = 0.1")["max-price"] == ("0.1", "job.py, line 5")


NOT_FOR_SCRIPTS = {
    "dependencies": '["numpy"]',
    "requirements": '"requirements.txt"',
    "owner": '["0x1"]',
    "folder": '"."',
    "file": '["job.py"]',
    "output": '"out"',
    "network": '"open"',
    "volume": '["images:/data"]',
    "notify": '"bell"',
    "server": '"http://127.0.0.1:1"',
}


def test_options_that_a_script_must_not_set(project: Path) -> None:
    in_files = {
        place: {name for name, option in OPTIONS.items() if place in option.sources}
        for place in (OptionSource.PROJECT, OptionSource.SCRIPT)
    }
    assert set(NOT_FOR_SCRIPTS) == in_files[OptionSource.PROJECT] - in_files[OptionSource.SCRIPT]
    assert in_files[OptionSource.SCRIPT] <= in_files[OptionSource.PROJECT]
    for key, value in NOT_FOR_SCRIPTS.items():
        with pytest.raises(InvalidInput, match=f"job.py, line 5: a script cannot set {key}"):
            said(project, f"{key} = {value}")
    with pytest.raises(InvalidInput, match="secret cannot be set in a file"):
        said(project, 'secret = ["TOKEN"]')


def test_paths_are_of_the_project_wherever_one_stands(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(project, 'folder = "src"', 'file = ["data.csv:d.csv"]', 'output = "out"')
    monkeypatch.chdir(project / "src")
    defaults = {key: value for key, (value, _) in said(project).items()}
    assert defaults == {"folder": ".", "file": ["../data.csv:d.csv"], "output": "../out"}


def test_a_link_does_not_lead_out_either(project: Path) -> None:
    (project / "innocent").symlink_to("/etc")
    write(project, 'folder = "innocent"')
    with pytest.raises(InvalidInput, match="is outside the project"):
        said(project)


def test_the_nearest_file_counts_up_to_the_top_of_the_repository(project: Path) -> None:
    assert nearest_project(project / "src") is None
    write(project.parent, "gpu = 1")
    assert nearest_project(project / "src") == project.parent / "pyproject.toml"
    (project / ".git").mkdir()
    assert nearest_project(project / "src") is None, "not above the repository"
    write(project, "gpu = 2")
    assert nearest_project(project / "src") == project / "pyproject.toml"
    (project / "src" / "pyproject.toml").write_text("[project]\nname = 'q'\n")
    assert said(project) == {}, "the nearest says nothing, and hides the others"


def test_the_home_directory_is_no_project(project: Path) -> None:
    write(Path.home(), "gpu = 1")
    assert nearest_project(project) is None


def test_files_of_another_user_are_not_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(project, "gpu = 1")
    owner = (project / "pyproject.toml").stat().st_uid
    assert nearest_project(project) is not None
    if owner == 0:  # root's files are the system's; then somebody else's is shown by a change
        os.chown(project / "pyproject.toml", 12345, -1)
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert nearest_project(project) is None
