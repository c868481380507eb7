"""The PEP 723 block: what is read, and what is refused at once."""

import time

import pytest

from potluck.model.error import InvalidInput
from potluck.model.script import ScriptMetadata, read_metadata


def block(*lines: str) -> str:
    return "\n".join(["# /// script", *(f"# {line}" for line in lines), "# ///", "print(1)"])


def dependency(requirement: str) -> str:
    return block(f"dependencies = [{requirement!r}]")


@pytest.mark.parametrize("source", ["", "print(1)", "# just a remark\n", block(), "# /// other\n#"])
def test_a_script_without_needs_has_empty_metadata(source: str) -> None:
    assert read_metadata(source) == ScriptMetadata()


def test_needs_are_read_into_one_normal_form() -> None:
    first_block = block(
        'requires-python = ">=3.11"', 'dependencies = ["Six >= 1", "rich[Jupyter]"]'
    )
    other = block(
        'dependencies = ["rich[Jupyter]", "six>=1", "six>=1"]', 'requires-python=">=3.11"'
    )
    assert read_metadata(first_block) == read_metadata(other)
    assert read_metadata(first_block) == ScriptMetadata(">=3.11", ("rich[Jupyter]", "six>=1"))


def test_tool_tables_bring_no_sources_or_indexes() -> None:
    source = block(
        'dependencies = ["six"]',
        "[tool.uv]",
        'index-url = "http://evil.example/simple"',
        "[tool.uv.sources]",
        'six = { path = "/etc" }',
    )
    assert read_metadata(source) == ScriptMetadata(None, ("six",))


def test_windows_line_ends_are_understood() -> None:
    source = dependency("six").replace("\n", "\r\n")
    assert read_metadata(source).dependencies == ("six",)


def test_the_last_closing_line_of_the_comment_ends_the_block() -> None:
    source = block('dependencies = ["six"]', "[tool.note]", "text = '''", "///", "'''")
    assert read_metadata(source).dependencies == ("six",)


def test_a_name_that_looks_like_a_file_is_made_a_name() -> None:
    assert read_metadata(dependency("evil.tar.gz")).dependencies == ("evil-tar-gz",)


@pytest.mark.parametrize(
    "requirement",
    [
        "file:///etc/passwd",
        "x @ file:///etc/passwd",
        "x @ http://evil.example/x.whl",
        "git+https://evil.example/x",
        "-r /etc/passwd",
        "-e .",
        "--index-url http://evil.example",
        "../x",
        "./x",
        "/x",
        "six --hash=sha256:00",
        "six # remark",
        "six; (" + "(" * 300,
        "x" * 501,
        "",
    ],
)
def test_only_plain_requirements_pass(requirement: str) -> None:
    with pytest.raises(InvalidInput, match="is not a plain requirement") as error_info:
        read_metadata(dependency(requirement))
    assert "addresses, paths and options" in error_info.value.hint


def test_a_second_line_can_not_be_smuggled_into_a_requirement() -> None:
    with pytest.raises(InvalidInput, match="not a plain requirement"):
        read_metadata(block(r'dependencies = ["six\n--index-url http://evil.example"]'))


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (block("dependencies = ["), "not valid TOML"),
        (block("a = " + "[" * 5000), "not valid TOML"),
        (block("a = " + "9" * 5000), "not valid TOML"),
        (block("dependencies = 'six'"), "must be a list of texts"),
        (block("dependencies = [1]"), "must be a list of texts"),
        (block("requires-python = 3.11"), "must be text"),
        (block("requires-python = 'new'"), "not a version specifier"),
        (block(f"dependencies = {['six'] * 201}"), "201 dependencies; 200 are allowed"),
        (block("a = '" + "x" * 16_384 + "'"), "longer than 16384"),
        (block("a." * 32 + "b = 1"), "A key in the script's block has more than 32 parts"),
        (block("[a . " + '"b".' * 31 + "c]"), "more than 32 parts"),
        (block("a = 1") + "\n" + block("b = 2"), "2 `# /// script` blocks"),
        ("# /// script\n# dependencies = []\n", "starts in line 1 is never closed"),
    ],
)
def test_a_broken_block_is_refused_with_a_sentence(source: str, sentence: str) -> None:
    with pytest.raises(InvalidInput, match=sentence) as error_info:
        read_metadata(source)
    assert error_info.value.hint


def test_a_hostile_source_costs_linear_time() -> None:
    """Of a processor; quadratic time would be seconds for each."""
    started = time.process_time()
    assert read_metadata("# /// a\n#\n" * 50_000) == ScriptMetadata()
    with pytest.raises(InvalidInput, match="never closed"):
        read_metadata("# /// script\n" * 40_000)
    with pytest.raises(InvalidInput, match="24000 `# /// script` blocks"):
        read_metadata("# /// script\n# ///\nx\n" * 24_000)
    for line in ("a." * 8_000 + "b = 1", "x = {" + "'a' ." * 3_000 + "b = 1}"):
        with pytest.raises(InvalidInput, match="more than 32 parts"):
            read_metadata(block(line))
    for line in ("a" * 16_000, '"' + r"\"" * 8_000, "a  " * 5_000, '"a" ' * 4_000):
        with pytest.raises(InvalidInput, match="not valid TOML"):
            read_metadata(block(line))
    assert time.process_time() - started < 2


def test_a_key_of_32_parts_and_a_version_of_many_are_fine() -> None:
    assert read_metadata(block("a." * 31 + "b = 1")) == ScriptMetadata()
    assert read_metadata(dependency("six==" + "1." * 60 + "1")).dependencies
