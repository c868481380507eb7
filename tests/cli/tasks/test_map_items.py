"""The items of a map: read from files of every kind, filled in, and refused by their line."""

from pathlib import Path

import pytest

from potluck.cli.request import items as reading
from potluck.cli.request.inputs import InputFile, RequestInputs, add_item_files
from potluck.cli.request.items import Item, ItemFormat, read_items
from potluck.cli.request.placeholders import build_item_inputs
from potluck.model.error import InvalidInput, TooLarge

FORMATS = [
    # (the file's name, what is in it, the items)
    ("names.txt", "Ada\n\nGrace Hopper \r\n", [Item("Ada"), Item("Grace Hopper ")]),
    ("names", "\ufeffÄda", [Item("Äda")]),
    ("cut", "a\x0cb\x85c\u2028d\r\ne", [Item("a\x0cb\x85c\u2028d"), Item("e")]),
    ("cut.jsonl", '"a\x85b\u2028c"\n', [Item("a\x85b\u2028c")]),
    (
        "runs.jsonl",
        '{"lr": 0.1, "tag": "a"}\n"text"\n7\n',
        [Item('{"lr": 0.1, "tag": "a"}', {"lr": "0.1", "tag": "a"}), Item("text"), Item("7")],
    ),
    ("runs.json", '[{"deep": [1]}, null]', [Item('{"deep": [1]}', {"deep": "[1]"}), Item("null")]),
    (
        "grid.csv",
        'lr,note\n0.1,"a, b"\n\n0.2,\n',
        [
            Item('{"lr": "0.1", "note": "a, b"}', {"lr": "0.1", "note": "a, b"}),
            Item('{"lr": "0.2", "note": ""}', {"lr": "0.2", "note": ""}),
        ],
    ),
    ("one.csv", "city\nOslo\n", [Item("Oslo", {"city": "Oslo"})]),
    ("grid.tsv", "a\tb\n1\t2\n", [Item('{"a": "1", "b": "2"}', {"a": "1", "b": "2"})]),
]


@pytest.mark.parametrize(("name", "text", "items"), FORMATS, ids=[row[0] for row in FORMATS])
def test_a_file_is_read_as_its_name_says(
    tmp_path: Path, name: str, text: str, items: list[Item]
) -> None:
    (tmp_path / name).write_text(text)
    assert read_items(str(tmp_path / name)) == items


def test_an_explicit_format_wins(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\ny\n")
    assert read_items(str(tmp_path / "a.csv"), ItemFormat.LINES) == [Item("x"), Item("y")]


BAD = [
    # (the file's name, what is in it, the sentence)
    ("a.txt", "\n\n", "has no items"),
    ("a.jsonl", '{"a": 1}\n\n{oops}\n', "line 3: not valid JSON"),
    ("a.json", "[1,\n2", "line 2: not valid JSON"),
    ("a.json", "{}", "is not a JSON list"),
    ("a.csv", "a,b\n1,2\n3\n", "line 3: 1 columns, but the header has 2"),
    ("a.csv", "a,a\n1,2\n", "the column 'a' exists twice"),
    ("a.csv", 'a,b\n"1,2\n', "line 2"),
]


@pytest.mark.parametrize(("name", "text", "sentence"), BAD)
def test_a_mistake_is_named_by_its_line(
    tmp_path: Path, name: str, text: str, sentence: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInput, match=sentence) as raised:
        read_items(str(tmp_path / name))
    assert raised.value.hint


def test_unusable_item_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not valid UTF-8"):
        read_items(str(tmp_path / "bytes"))
    with pytest.raises(InvalidInput, match="is a directory") as raised:
        read_items(str(tmp_path))
    assert "/*'" in raised.value.hint
    with pytest.raises(InvalidInput, match="There is no file"):
        read_items(str(tmp_path / "gone.txt"))
    with pytest.raises(InvalidInput, match="No files match"):
        read_items(str(tmp_path / "*.gone"))
    monkeypatch.setattr(reading, "MOST_ITEMS", 1)
    (tmp_path / "two").write_text("a\nb\n")
    with pytest.raises(TooLarge, match="2 items"):
        read_items(str(tmp_path / "two"))


def test_a_pattern_names_files_as_the_task_finds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("data/a.csv", "data/b.csv", "data/deep/a.csv", "data/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    plain = read_items("data/*.csv")
    assert [item.value for item in plain] == ["data/a.csv", "data/b.csv"]
    assert [item.label for item in plain] == ["a.csv", "b.csv"]
    assert plain[0].fields == {"name": "a.csv", "stem": "a"} and plain[0].file == Path("data/a.csv")
    deep = read_items("data/**/*.csv")
    assert [item.label for item in deep] == ["data_a.csv", "data_b.csv", "data_deep_a.csv"]
    other_items = read_items(str(tmp_path / "data" / "*.csv"))
    assert [item.value for item in other_items] == ["a.csv", "b.csv"], (
        "not a path in the task's directory"
    )
    monkeypatch.chdir(tmp_path / "data" / "deep")
    assert [item.value for item in read_items("../*.csv")] == ["a.csv", "b.csv"]


def test_files_that_would_share_a_label_have_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("d/a/b/x.txt", "d/a_b/x.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    assert [item.label for item in read_items("d/**/x.txt")] == ["", ""]


def test_item_files_inside_the_folder_are_not_sent_twice(tmp_path: Path) -> None:
    """Unless its .gitignore keeps it from going along."""
    (tmp_path / "in").mkdir()
    for name in ("in/a.csv", "in/b.csv"):
        (tmp_path / name).write_text(name)
    (tmp_path / ".gitignore").write_text("b.csv\n")
    included, ignored = read_items(f"{tmp_path}/in/*.csv", None, tmp_path)
    assert (included.value, included.file) == ("in/a.csv", None)
    assert (ignored.value, ignored.file) == ("b.csv", tmp_path / "in" / "b.csv")


def test_few_files_are_shown_and_many_are_packed() -> None:
    files = [InputFile(Path(f"{n}"), f"{n}") for n in range(300)]
    assert add_item_files(RequestInputs(), files[:3]).files == tuple(files[:3])
    packed_inputs = add_item_files(RequestInputs(), files)
    assert (packed_inputs.files, packed_inputs.packed) == ((), tuple(files))
    with pytest.raises(InvalidInput, match="300 files are too many"):
        add_item_files(RequestInputs(Path()), files)


ITEMS = [Item("first", {"lr": "0.1", "the name": "x"}), Item("second", {"lr": "0.2"})]
FILLED = [
    # (the words, those of the first item, and of the second)
    ((), ("first",), ("second",)),
    (("{}",), ("first",), ("second",)),
    (("--lr={lr}", "{item}"), ("--lr=0.1", "0"), ("--lr=0.2", "1")),
    (("{the name}",), ("x",), ("",)),
    (("{{}}", "{{lr}}", '{"a": 1}', "{}"), ("{}", "{lr}", '{"a": 1}', "first"), None),
    (('{"a":{"b":1}}', "{lr}"), ('{"a":{"b":1}}', "0.1"), None),
    (('{"a":{"b":{lr}}}',), ('{"a":{"b":0.1}}',), ('{"a":{"b":0.2}}',)),
    (('{"a":{{}}}', "${{lr}}", "{{ {"), ('{"a":{}}', "${lr}", "{{ {"), None),
    (("same", "for all"), None, None),
    (('{"a":{"b":1}}', "{{1}}"), None, None),
    (('{"a": 1}', "${HOME}x{ }", "{1}"), None, None),
]


@pytest.mark.parametrize(("arguments", "first", "second"), FILLED)
def test_placeholders_in_arguments_are_filled_in(
    arguments: tuple[str, ...], first: tuple[str, ...] | None, second: tuple[str, ...] | None
) -> None:
    inputs = build_item_inputs(arguments, ITEMS)
    assert inputs[0].arguments == first
    assert second is None or inputs[1].arguments == second


def test_variables_need_no_words() -> None:
    (first, _) = build_item_inputs(("same",), ITEMS)
    assert first.environment == {
        "POTLUCK_ITEM_VALUE": "first",
        "POTLUCK_FIELD_LR": "0.1",
        "POTLUCK_FIELD_THE_NAME": "x",
    }


def test_two_fields_in_one_variable_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"'lr rate' and 'lr-rate' .* POTLUCK_FIELD_LR_RATE"):
        build_item_inputs((), [Item("a", {"lr rate": "1", "lr-rate": "2"})])


def test_an_unknown_field_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(InvalidInput, match="No item has a field 'the nam'") as raised:
        build_item_inputs(("{the nam}",), ITEMS)
    assert "Did you mean {the name}?" in raised.value.hint
    assert "write {{the nam}}" in raised.value.hint


def test_an_item_has_its_limits() -> None:
    with pytest.raises(TooLarge, match="Item 1 has more than 64 KiB"):
        build_item_inputs((), [Item("a"), Item("x" * 70_000)])
    with pytest.raises(InvalidInput, match="Item 0 contains a NUL"):
        build_item_inputs((), [Item("\0")])
    with pytest.raises(InvalidInput, match="Item 0 cannot be passed"):
        build_item_inputs((), [Item("a", {f"f{n}": "" for n in range(300)})])
