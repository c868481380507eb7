"""Templates: those that come along are right, and mistakes in one's own are told."""

from pathlib import Path

import pytest

from potluck.local.template import BUILT_IN, Template, all_templates, find_template, own_templates
from potluck.model.error import InvalidInput, NotFound, PotluckError
from potluck.model.script import read_metadata

PLAIN = 'summary = "Does it."\nscript = "do.py"\n'


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POTLUCK_CONFIG_DIR", str(tmp_path / "config"))


def own(name: str, text: str) -> Path:
    folder = own_templates() / name
    folder.mkdir(parents=True)
    (folder / "template.toml").write_text(text)
    (folder / "do.py").write_text("print()\n")
    return folder


def test_built_in_templates_are_usable() -> None:
    templates = list(all_templates())
    names = [template.name for template in templates if isinstance(template, Template)]
    assert names == sorted(path.name for path in BUILT_IN.iterdir())
    assert {"k-means", "mandelbrot", "matrix-product", "opencl-benchmark"} <= set(names)
    for template in templates:
        assert isinstance(template, Template) and template.about.script
        source = (template.directory / template.about.script).read_text()
        is_plain = template.name == "hello"
        assert is_plain or read_metadata(source).dependencies, (
            f"{template.name} brings nothing along"
        )
        for name in template.about.parameters:
            assert f'"--{name}"' in source, f"the script of {template.name} takes no --{name}"


def test_parameters_become_arguments() -> None:
    product = find_template("matrix-product")
    assert product.arguments({"size": "64", "save": "yes"}) == (
        *("--size=64", "--rounds=5", "--seed=1", "--save=yes"),
    )
    assert find_template("mandelbrot").arguments({"zoom": "2"})[4] == "--zoom=2.0"


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"sise": "64"}, "matrix-product has no parameter 'sise'."),
        ({"size": "many"}, "-p size=many is not a whole number."),
        ({"size": "3"}, "-p size=3 is out of range."),
        ({"save": "perhaps"}, "-p save=perhaps is not a choice."),
    ],
)
def test_parameters_that_do_not_fit(parameters: dict[str, str], sentence: str) -> None:
    with pytest.raises(InvalidInput) as error_info:
        find_template("matrix-product").arguments(parameters)
    assert error_info.value.detail == sentence
    assert error_info.value.hint


def test_not_a_number_is_out_of_range() -> None:
    with pytest.raises(InvalidInput, match="out of range"):
        find_template("mandelbrot").arguments({"zoom": "nan"})


def test_own_templates_take_precedence_over_built_in_ones() -> None:
    folder = own("mandelbrot", PLAIN)
    assert find_template("mandelbrot").directory == folder
    assert find_template(str(folder)).name == "mandelbrot"
    assert len(list(all_templates())) == len(list(BUILT_IN.iterdir()))


def test_required_parameters() -> None:
    own("ask", f'{PLAIN}[parameters.who]\nhelp = "Whom."\n')
    with pytest.raises(InvalidInput, match="The parameter who must be given"):
        find_template("ask").arguments({})
    assert find_template("ask").arguments({"who": "Ada"}) == ("--who=Ada",)


def test_files_beside_the_script_are_sent() -> None:
    folder = own("alone", PLAIN)
    (folder / "__pycache__").mkdir()
    assert not find_template("alone").has_files
    (folder / "data.csv").touch()
    assert find_template("alone").has_files


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("summary =", "Invalid value"),
        ('script = "do.py"', "missing required field 'summary'"),
        ('summary = "x"', "it needs one of script, command and image"),
        (f'{PLAIN}command = ["ls"]', "it needs one of script, command and image"),
        (f'{PLAIN}[options]\nsecret = "x"', "[options]: secret cannot be set in a file"),
        (f"{PLAIN}[parameters.n]\ndefault = 1\nminimum = 2", "the default of n"),
    ],
)
def test_mistakes_in_a_template_are_reported(text: str, reason: str) -> None:
    own("wrong", text)
    with pytest.raises(InvalidInput) as error_info:
        find_template("wrong")
    assert "template.toml is invalid" in error_info.value.detail
    assert reason in error_info.value.detail
    (broken_template,) = [
        template for template in all_templates() if isinstance(template, PotluckError)
    ]
    assert broken_template.detail == error_info.value.detail


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("../private.txt", "is outside the folder"),
        ("/etc/hostname", "is outside the folder"),
        ("link.py", "is outside the folder"),
        ("ring.py", "cannot be read"),
        ("missing.py", "is not a file in the folder"),
        (".", "is not a file in the folder"),
    ],
)
def test_a_script_is_a_file_of_the_folder(script: str, reason: str) -> None:
    """It is read here and sent to a node: no other file of the machine may be named."""
    folder = own("theirs", f'summary = "Reads."\nscript = "{script}"\n')
    (folder.parent / "private.txt").write_text("mine")
    (folder / "link.py").symlink_to("../private.txt")
    (folder / "ring.py").symlink_to("ring.py")
    with pytest.raises(InvalidInput) as error_info:
        find_template("theirs")
    assert reason in error_info.value.detail


def test_a_script_may_lie_below_or_be_a_link_to_its_neighbour() -> None:
    folder = own("deep", 'summary = "Reads."\nscript = "src/link.py"\n')
    (folder / "src").mkdir()
    (folder / "src/link.py").symlink_to("../do.py")
    assert find_template(str(folder)).about.script == "src/link.py"


def test_a_name_that_is_none() -> None:
    with pytest.raises(NotFound, match="no template 'mandelbort'"):
        find_template("mandelbort")
    with pytest.raises(InvalidInput, match="is not a template"):
        find_template("./nowhere")
