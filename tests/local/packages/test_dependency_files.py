"""What a project's files say it needs, and what of it a node can install."""

from pathlib import Path

import pytest

from potluck.local.packages.dependency_files import find_dependency_file, read_dependency_file
from potluck.local.packages.script_dependencies import add_dependencies
from potluck.model.error import InvalidInput
from potluck.model.script import ScriptMetadata, read_metadata

UV_LOCK = """
version = 1
requires-python = ">=3.11"

[[package]]
name = "demo"
version = "0.1.0"
source = { editable = "." }
dependencies = [
    { name = "torch" },
    { name = "uvicorn", extra = ["standard"] },
    { name = "numpy", version = "2.4.6", marker = "python_version < '3.12'" },
    { name = "numpy", version = "2.5.4", marker = "python_version >= '3.12'" },
]

[package.dev-dependencies]
dev = [{ name = "pytest" }]

[[package]]
name = "nccl"
version = "2.30"
source = { registry = "x" }
dependencies = [{ name = "driver", marker = "platform_machine == 'x86_64'" }]

[[package]]
name = "driver"
version = "1.0"
source = { registry = "x" }

[[package]]
name = "numpy"
version = "2.4.6"
source = { registry = "x" }

[[package]]
name = "numpy"
version = "2.5.4"
source = { registry = "x" }

[[package]]
name = "pytest"
version = "9.0"
source = { registry = "x" }

[[package]]
name = "torch"
version = "2.15.0"
source = { registry = "x" }
dependencies = [{ name = "nccl", marker = "sys_platform == 'linux'" }]

[[package]]
name = "uvicorn"
version = "0.54.0"
source = { registry = "x" }

[package.optional-dependencies]
standard = [{ name = "httptools" }]

[[package]]
name = "httptools"
version = "0.9.0"
source = { registry = "x" }
dependencies = [{ name = "torch" }]
"""
PYLOCK = """
lock-version = "1.0"
requires-python = ">=3.11"
[[packages]]
name = "demo"
directory = { path = ".", editable = true }
[[packages]]
name = "numpy"
version = "2.4.6"
marker = "python_version < '3.12'"
wheels = []
[[packages]]
name = "pandas"
version = "3.1.1"
"""


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_uv_lock_pins_what_the_project_reaches(tmp_path: Path) -> None:
    project = read_dependency_file(write(tmp_path, "uv.lock", UV_LOCK))
    assert project.requires_python == ">=3.11"
    assert sorted(project.dependencies) == [
        "driver==1.0 ; ((sys_platform == 'linux') and (platform_machine == 'x86_64'))",
        "httptools==0.9.0",
        "nccl==2.30 ; (sys_platform == 'linux')",
        "numpy==2.4.6 ; (python_version < '3.12')",
        "numpy==2.5.4 ; (python_version >= '3.12')",
        "torch==2.15.0",
        "uvicorn==0.54.0",
    ]


def test_a_pylock_pins_its_packages(tmp_path: Path) -> None:
    for name in ("pylock.toml", "pylock.gpu.toml"):
        project = read_dependency_file(write(tmp_path, name, PYLOCK))
        assert project.requires_python == ">=3.11"
        expected = ("numpy==2.4.6 ; python_version < '3.12'", "pandas==3.1.1")
        assert project.dependencies == expected


def test_a_pyproject_lists_ranges(tmp_path: Path) -> None:
    text = '[project]\nname = "demo"\nrequires-python = ">=3.11"\ndependencies = ["numpy>=2"]\n'
    project = read_dependency_file(write(tmp_path, "pyproject.toml", text))
    assert (project.dependencies, project.requires_python) == (("numpy>=2",), ">=3.11")


def test_requirements_with_comments_hashes_and_includes(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    write(tmp_path, "more/base.txt", "pandas==3.1.1\n")
    text = (
        "# made by pip-compile\nnumpy==2.4.6 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n"
        "    # via demo\n\nscipy ; python_version < '3.13'  # why\n-r more/base.txt\n"
    )
    project = read_dependency_file(write(tmp_path, "requirements.txt", text))
    expected = ("numpy==2.4.6", "scipy ; python_version < '3.13'", "pandas==3.1.1")
    assert project.dependencies == expected


TORCH = 'version = "2.15.0"\nsource = { registry = "x" }'
GIT = UV_LOCK.replace(TORCH, TORCH.replace("registry", "git"))


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("uv.lock", GIT, "torch does not come from a package index"),
        ("uv.lock", "version = 1", "it has no project"),
        ("uv.lock", UV_LOCK.replace('name = "driver"\nversion', 'name = "d"\nversion'), "driver"),
        ("pylock.toml", PYLOCK + 'vcs = { type = "git" }', "pandas does not come from a package"),
        ("pylock.toml", "packages = 1", "it has no list of packages"),
        ("pylock.toml", "[[packages]]\nname = 'x'", "a package has no name or version"),
        ("pyproject.toml", '[project]\ndynamic = ["dependencies"]', "its dependencies are dynamic"),
        ("pyproject.toml", "[project]\ndependencies = 1", "must be a list of texts"),
        ("pyproject.toml", "project = 1", "must be a list of texts"),
        ("pyproject.toml", "[project", "it is not valid TOML"),
        ("requirements.txt", "-e .", "the option -e is not supported"),
        ("requirements.txt", "--index-url https://x.example", "--index-url is not supported"),
        ("requirements.txt", "-r missing.txt", "No such file"),
        ("requirements.txt", "-r requirements.txt", "include each other"),
        ("requirements.txt", "\udcff", "it is not valid UTF-8"),
    ],
)
def test_uninstallable_dependencies_are_refused(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    path = tmp_path / name
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InvalidInput) as raised:
        read_dependency_file(path)
    assert problem in raised.value.detail
    assert ("--folder" in raised.value.hint) == (text == "-e .")


def test_the_best_description_of_a_folder_is_found(tmp_path: Path) -> None:
    assert find_dependency_file(tmp_path) is None
    write(tmp_path, "pyproject.toml", "[tool.ruff]\n")
    assert find_dependency_file(tmp_path) is None, "it only configures tools"
    names = []
    for name in ("requirements.txt", "pyproject.toml", "uv.lock", "pylock.toml"):
        write(tmp_path, name, "[project]\ndependencies = []\n")
        path = find_dependency_file(tmp_path)
        names.append(path and path.name)
    assert names == ["requirements.txt", "pyproject.toml", "uv.lock", "pylock.toml"]


SCRIPT = "import numpy\nraise SystemExit(1)"
BLOCK = '# /// script\n# requires-python = ">=3.11"\n# dependencies = ["numpy"]\n# ///\n'


def line_of(source: str, text: str) -> int:
    return source[: source.index(text)].count("\n")


@pytest.mark.parametrize("source", [SCRIPT, f"{SCRIPT}\n", BLOCK + SCRIPT, f"{SCRIPT}\n{BLOCK}"])
def test_a_script_gets_a_block_and_keeps_its_lines(source: str) -> None:
    changed = add_dependencies(source, ["Pandas>=3", "numpy"], "<3.14")
    needs = read_metadata(changed)
    own_needs = read_metadata(source)
    assert needs.dependencies == ("numpy", "pandas>=3")
    assert needs.requires_python == ("<3.14,>=3.11" if own_needs.requires_python else "<3.14")
    assert line_of(changed, "raise") == line_of(source, "raise")
    compile(changed, "script.py", "exec")


def test_a_text_that_looks_like_a_block_stays(tmp_path: Path) -> None:
    source = 'TEXT = "# /// script"\nprint(TEXT)\n'
    changed = add_dependencies(source, ["numpy"])
    assert changed.startswith(source)
    assert read_metadata(changed) == ScriptMetadata(dependencies=("numpy",))
