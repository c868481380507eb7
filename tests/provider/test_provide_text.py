"""What a person reads while a provider works."""

import pytest
from structlog.testing import capture_logs

from potluck.cli.provider.provide import make_announcer
from potluck.cli.provider.provide_text import show_announcement
from potluck.cli.terminal.screen import Screen
from potluck.model.device import Availability, DeviceDescription, DeviceKind, Standing
from potluck.model.ids import NodeId
from potluck.model.node import SandboxReport
from potluck.model.task import EndReason
from potluck.model.terms import DeviceTerms
from potluck.provider.announcement import (
    Announcement,
    AttemptFinished,
    AttemptPreparing,
    AttemptStarted,
    AttemptStopped,
    AvailabilityChanged,
    DeviceRegained,
    DeviceUnbound,
    Draining,
    OfferRefused,
    OptionsOverridden,
    PowerRefused,
    RegistrationDone,
    ServerAnswers,
    ServerSilent,
    Stopped,
    TermsRead,
    TermsWrong,
    VersionSkew,
)
from potluck.store.new_ids import new_attempt_id, new_task_id

ATTEMPT, TASK = new_attempt_id(), new_task_id()
REGISTERED = RegistrationDone(
    node_id=NodeId("node_1"),
    url="http://127.0.0.1:8470",
    name="box",
    devices=(
        DeviceDescription(
            DeviceKind.CPU, "cpu-1", "AMD", "EPYC", 2**34, terms=DeviceTerms(250_000)
        ),
    ),
    sandbox=SandboxReport("bwrap", "cgroup v1", "cgroup v1", notes=("a note",)),
    own_tasks_only=False,
    containers=SandboxReport("docker", "cgroup v1", "cgroup v1"),
)

SAID: list[tuple[Announcement, tuple[str, ...]]] = [
    (
        REGISTERED,
        (
            "CPU",
            "EPYC",
            "16 GiB",
            "0.25/h",
            "memory by cgroup v1",
            "a note",
            "Images: docker",
            "Ctrl-C",
        ),
    ),
    (AttemptPreparing(ATTEMPT, TASK), ("preparing", TASK)),
    (AttemptStarted(ATTEMPT, TASK), ("running", TASK)),
    (AttemptFinished(ATTEMPT, TASK, EndReason.COMPLETED, 0, "", 2.5), ("finished", "2.5 s")),
    (AttemptFinished(ATTEMPT, TASK, EndReason.MEMORY_LIMIT, None, "", 1), ("more memory",)),
    (
        AttemptFinished(ATTEMPT, TASK, EndReason.SIGNAL, -9, "killed \x1b[2J by 9", 1),
        ("killed �[2J by 9",),  # nothing that a terminal would obey
    ),
    (AttemptStopped(ATTEMPT, TASK), ("stopped", TASK)),
    (DeviceUnbound("GPU-1", "RTX", Standing.CONTESTED), ("RTX", "another wallet", "compute on it")),
    (DeviceUnbound("GPU-1", "RTX", Standing.FOREIGN), ("GPU-1", "another wallet", "leaves")),
    (DeviceUnbound("GPU-1", "RTX", Standing.ELSEWHERE), ("another node of your wallet", "leaves")),
    (DeviceRegained("GPU-1", "RTX"), ("RTX", "your wallet", "gets work")),
    (
        AvailabilityChanged("GPU-1", "RTX", Availability.PAUSED, "Its owner has paused it."),
        ("RTX", "GPU-1", "takes no new work", "has paused it"),
    ),
    (AvailabilityChanged("GPU-1", "RTX", Availability.AVAILABLE, ""), ("RTX", "takes work")),
    (TermsRead(), ("Your new terms are in effect",)),
    (TermsWrong("No \x1b[2J such key.", "Mend it."), ("No �[2J such key.", "Mend it.")),
    (OptionsOverridden(("--price", "--cores"), "/terms"), ("/terms", "--price, --cores")),
    (OfferRefused("Too many.", "Offer fewer."), ("refuses the offer", "Too many. Offer fewer.")),
    (PowerRefused("GPU-1", "No power limit."), ("No power limit.",)),
    (Draining(2, False), ("2 running", "no new tasks", "then stops")),
    (Draining(0, True), ("no tasks running", "leaves the pool permanently")),
    (VersionSkew("0.1.0", "0.2.0", "It is older.", "Update it."), ("It is older. Update it.",)),
    (
        ServerSilent("unavailable", "Nothing answers.", "Wait."),
        ("Nothing answers.", "running tasks continue"),
    ),
    (ServerAnswers(65.0), ("answers again after 1 min 5 s",)),
    (Stopped(), ("Stopped",)),
]


@pytest.mark.parametrize(("announcement", "expected_words"), SAID)
def test_every_announcement_has_its_words(
    announcement: Announcement, expected_words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    show_announcement(Screen(), announcement)
    output = "".join(capsys.readouterr())
    assert all(word in output for word in expected_words), output


def test_a_machine_without_a_sandbox_says_whose_tasks_it_accepts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from msgspec.structs import replace

    unlimited = SandboxReport("runsc", cpu="cgroup v2")
    show_announcement(Screen(), replace(REGISTERED, sandbox=unlimited, containers=None))
    output = " ".join(capsys.readouterr().out.split())
    assert "(runsc) does not limit memory and processes: it takes your own tasks only." in output
    half = SandboxReport("docker", "cgroup v2")
    show_announcement(Screen(), replace(REGISTERED, containers=half))
    output = " ".join(capsys.readouterr().out.split())
    assert "(docker) does not limit processes: it takes your own images only." in output
    show_announcement(Screen(), REGISTERED)
    assert "your own" not in capsys.readouterr().out


def test_warnings_are_on_stderr_also_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    announce = make_announcer(Screen(json=True))
    with capture_logs() as logged:
        announce(TermsRead())
        announce(TermsWrong("In provider.toml: deny: no.", "Copy it again."))
    assert [log_line["event"] for log_line in logged] == ["In provider.toml: deny: no."]
    assert len(capsys.readouterr().out.splitlines()) == 2
