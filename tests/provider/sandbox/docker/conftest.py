"""Engines and hosts, one of each for a test process; Docker alone where it should not take long."""

from collections.abc import Iterator

import pytest

from tests.provider.sandbox.conftest import Host, hosting
from tests.provider.sandbox.docker.engine import ENGINES, Started, starting


@pytest.fixture(scope="session")
def docker() -> Iterator[Started]:
    with starting("docker") as engine:
        yield engine


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[Started]:
    with starting(request.param) as engine:
        yield engine


@pytest.fixture(scope="session")
def host(engine: Started) -> Iterator[Host]:
    with hosting(True, engine.kind) as host:
        yield host


@pytest.fixture(scope="session")
def any_host(host: Host) -> Host:
    """As the tests of all drivers call it."""
    return host


# What is true of gVisor too, but looks different: its kernel has its own words and numbers.
IN_OTHER_WORDS = {
    "test_more_variables_than_the_kernel_takes_are_a_sentence": "it names another error",
    "test_mounts_are_read_only_unless_they_say_otherwise": "it names another error",
    "test_no_user_of_the_machine_reads_the_variables_off_a_command_line": "nothing is seen outside",
    "test_a_run_has_an_unprivileged_user_without_capabilities": "its /proc tells less",
    "test_the_kernel_refuses_inside": "its filter answers EPERM to all",
    "test_a_call_of_another_architecture_ends_the_process": "it has no other architecture",
}


@pytest.fixture(autouse=True)
def skip_other_words(request: pytest.FixtureRequest) -> None:
    name = request.node.originalname
    if "docker+runsc-forks" in request.node.name:
        pytest.skip("gVisor: so many processes take more memory there; test_runs.py gives it")
    if name in IN_OTHER_WORDS and "runsc" in request.node.name:
        pytest.skip(f"gVisor: {IN_OTHER_WORDS[name]}")
