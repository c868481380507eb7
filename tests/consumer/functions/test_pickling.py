"""Functions and arguments as bytes: what travels, when it is made anew, and what cannot go."""

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from textwrap import dedent

import cloudpickle
import pytest

import potluck
from potluck.consumer.functions.call import Code
from potluck.consumer.functions.capture import capture_references
from potluck.consumer.functions.pickling import find_own_modules, pickle_call, pickle_items
from potluck.model.error import InvalidInput

FACTOR = 2


def helper(x: int) -> int:
    return x * FACTOR


def uses_helper(x: int) -> int:
    return helper(x)


@potluck.task
def factorial(n: int) -> int:
    return 1 if n == 0 else n * factorial(n - 1)


def _elsewhere(code: bytes, call: bytes, tmp_path: Path) -> str:
    """What it gives in an interpreter that has cloudpickle, and neither Potluck nor our modules."""
    (tmp_path / "cloudpickle").symlink_to(Path(cloudpickle.__file__).parent)
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import pickle\n"
        f"function, given = pickle.loads({code!r}), pickle.loads({call!r})\n"
        "arguments, named = (given, {}) if type(given) is tuple else given\n"
        "print(function(*arguments, **named), any('potluck' in each for each in sys.modules))"
    )
    command = [sys.executable, "-I", "-S", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_ones_own_modules_travel_with_the_function(tmp_path: Path) -> None:
    code = Code(uses_helper)
    modules, data = code.get(has_folder=False)
    assert __name__ in {module.__name__ for module in modules}
    assert _elsewhere(data, pickle_call((21,), {}, modules), tmp_path) == "42 False"


def test_a_decorated_function_calls_itself_there_without_potluck(tmp_path: Path) -> None:
    modules, data = Code(factorial._function).get(has_folder=False)
    assert _elsewhere(data, pickle_call((), {"n": 5}, modules), tmp_path) == "120 False"


def test_files_of_the_folder_are_not_results() -> None:
    assert Code(uses_helper).get(has_folder=True)[0] == []


def test_installed_modules_and_potluck_never_travel() -> None:
    names = {module.__name__ for module in find_own_modules(uses_helper)}
    assert "tests.processes" in names or "tests" in {name.partition(".")[0] for name in names}
    assert not [name for name in names if name.partition(".")[0] in ("potluck", "pytest", "json")]


def test_a_helper_that_was_defined_anew_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    code = Code(uses_helper)
    first = code.get(has_folder=False)[1]
    assert code.get(has_folder=False)[1] is first
    monkeypatch.setitem(globals(), "FACTOR", 3)  # two steps away
    second = code.get(has_folder=False)[1]
    assert second != first
    assert code.get(has_folder=False)[1] is second


def dumped(x: int) -> str:
    return json.dumps(helper(x)) + textwrap.dedent("") + dedent("")


def test_installed_modules_are_not_searched_for_references() -> None:
    """It refers to half of the world, and a look is taken before each call."""
    references = capture_references(dumped)
    assert helper in references and dedent in references
    assert len(references) < 12


def test_items_are_pickled_each_by_itself() -> None:
    shared = ["the same object"]
    items = pickle_items([(shared, 1), (shared, 2), (lambda: 3,)], [])
    assert [pickle.loads(item) for item in items[:2]] == [(shared, 1), (shared, 2)]
    assert pickle.loads(items[2])[0]() == 3


@pytest.mark.parametrize("argument", [threading.Lock(), (i for i in range(3))])
def test_an_unpicklable_argument_is_reported(argument: object) -> None:
    with pytest.raises(InvalidInput, match="An argument cannot be pickled") as raised:
        pickle_call((argument,), {}, [])
    assert "inside the function" in raised.value.hint


def test_a_child_pickles_though_its_parent_was_forked_in_the_middle_of_it() -> None:
    is_pickling, may_end = threading.Event(), threading.Event()

    class Slow:
        def __reduce__(self) -> tuple[type[int], tuple[()]]:
            is_pickling.set()
            may_end.wait(30)
            return int, ()

    modules = [sys.modules[__name__]]
    thread = threading.Thread(target=pickle_call, args=((Slow(),), {}, modules))
    thread.start()
    assert is_pickling.wait(30)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        with contextlib.suppress(BaseException):
            assert not cloudpickle.list_registry_pickle_by_value()
            pickle_call((1,), {}, modules)
            os._exit(0)
        os._exit(1)
    may_end.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_the_setting_of_cloudpickle_is_as_it_was() -> None:
    before = cloudpickle.list_registry_pickle_by_value()
    Code(uses_helper).get(has_folder=False)
    assert cloudpickle.list_registry_pickle_by_value() == before
