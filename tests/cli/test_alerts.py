"""`potluck admin alerts`, against a server that answers as told."""

import json
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from potluck.model.alert import AlertName, AlertState
from potluck.model.event import EventKind
from potluck.model.ids import AccountId, NodeId
from potluck.wire.alerts import (
    AlertPage,
    AlertTest,
    AlertTestResult,
    AlertView,
    ErrorGroup,
    ErrorPage,
    SilenceView,
)
from potluck.wire.events import EventPage
from tests.cli.command_line import CommandLine
from tests.consumer.fake_server import FakeServer, Scene, says

NOW = datetime.now(UTC)
NODE = NodeId("node_01jd0000000000000000000000")
SILENCE = SilenceView(
    *("silence_01jd0000000000000000000000", AlertName.NODE_LOST, NODE, NOW + timedelta(hours=2)),
    *(AccountId("account_1"), "a new power supply", NOW),
)


def an_alert(number: int, state: AlertState) -> AlertView:
    detail = f"attic (node_{number}) has been silent for 5 min 0 s."
    return AlertView(number, AlertName.NODE_LOST, f"node_{number}", state, detail, NOW, NOW)


def test_firing_alerts_come_first_and_silences_last(user: CommandLine, server: FakeServer) -> None:
    alerts = [an_alert(2, AlertState.RESOLVED), an_alert(1, AlertState.FIRING)]
    server.plays("/v1/alerts", says(AlertPage(alerts, [SILENCE])))
    lines = user.run("admin", "alerts").stdout.decode().splitlines()
    assert lines[0].split() == ["STATE", "ALERT", "SINCE", "DETAIL"]
    assert lines[1].startswith("firing") and lines[1].endswith("silent for 5 min 0 s.")
    assert lines[2].startswith("resolved") and lines[4].startswith("silence_")
    silenced = replace(an_alert(1, AlertState.FIRING), is_silenced=True)
    server.plays("/v1/alerts", says(AlertPage([alerts[0], silenced], [SILENCE])))
    assert user.run("admin", "alerts").stdout.decode().splitlines()[1].startswith("silenced")
    (document,) = user.run("admin", "alerts", "--json").lines()
    assert [alert["id"] for alert in document["alerts"]] == [2, 1]
    server.plays("/v1/alerts", says(AlertPage([], [])))
    assert "There are no alerts." in user.run("admin", "alerts").stderr


def test_a_test_says_which_messages_arrived(user: CommandLine, server: FakeServer) -> None:
    results = [
        AlertTestResult("1 (mailtos)", True, 0.8),
        AlertTestResult("2 (json)", False, 15.0, "it did not answer within 15 s"),
    ]
    server.plays("/v1/alerts/test", says(AlertTest(results)))
    tested = user.run("admin", "alerts", "test")
    assert tested.stdout.decode().splitlines() == [
        "✓ Destination 1 (mailtos): accepted after 0.8 s.",
        "✗ Destination 2 (json): it did not answer within 15 s.",
    ]
    assert tested.status != 0
    server.plays("/v1/alerts/test", says(AlertTest(results[:1])))
    assert user.run("admin", "alerts", "test").status == 0
    server.plays("/v1/alerts/test", says(AlertTest([])))
    assert "POTLUCK_ALERT_URLS" in user.run("admin", "alerts", "test").stderr


def test_a_silence_is_of_an_alert_and_a_node_for_a_while(
    user: CommandLine, server: FakeServer
) -> None:
    server.plays("/v1/alerts/silences", says(SILENCE))
    arguments = ("NodeLost", "--node", NODE, "--for", "3h", "--comment", "a new power supply")
    result = user.run("admin", "alerts", "silence", *arguments)
    assert f"NodeLost of {NODE}: no messages for 3 h 0 min" in result.stdout.decode()
    assert json.loads(server.requests[-1].body) == {
        "name": "NodeLost",
        "subject": NODE,
        "seconds": 10800.0,
        "comment": "a new power supply",
    }
    assert user.run("admin", "alerts", "silence", "NodeEaten").status == 64
    for wrong in (("--for", "soon"), ("--for", "367d"), ("--node", NODE, "--subject", "a:1")):
        refused = user.run("admin", "alerts", "silence", "NodeLost", *wrong)
        assert refused.status == 64 and wrong[0] in refused.stderr
    server.plays(f"/v1/alerts/silences/{SILENCE.id}", Scene(204))
    (document,) = user.run("admin", "alerts", "unsilence", SILENCE.id, "--json").lines()
    assert document == {"silence_id": SILENCE.id, "ended": True}


def test_notices_are_about_new_events(user: CommandLine, server: FakeServer) -> None:
    server.plays("/v1/events", says(EventPage([], None, "0")))
    result = user.run("events", "--kind", EventKind.NODE_LOST, "--notify", "bell")
    assert (result.status, "Add --follow." in result.stderr) == (64, True)


def test_errors_are_listed_by_kind_and_place_and_one_is_shown(
    user: CommandLine, server: FakeServer
) -> None:
    group = ErrorGroup(
        *("9f86d081884c", "KeyError", "potluck.server.api.me", "'a'"),
        "Traceback …\nKeyError: 'a'\x1b[2J",
        *("box:8470", 3, NOW, NOW),
    )
    server.plays("/v1/errors", says(ErrorPage([group])))
    lines = user.run("admin", "errors").stdout.decode().splitlines()
    assert lines[0].split()[:4] == ["ERROR", "TIMES", "LAST", "FIRST"]
    assert lines[1].startswith("9f86d081884c") and "KeyError" in lines[1]
    result = user.run("admin", "errors", "9f86d081884c")
    assert "KeyError: 'a'" in result.stdout.decode() and b"\x1b" not in result.stdout
    assert "3 times" in result.stderr
    assert user.run("admin", "errors", "nothing").status != 0
    (document,) = user.run("admin", "errors", "--json").lines()
    assert document["errors"][0]["occurrences"] == 3
    server.plays("/v1/errors", says(ErrorPage([])))
    assert "No errors were logged." in user.run("admin", "errors").stderr


def test_everything_is_silenced_only_if_that_is_confirmed(
    user: CommandLine, server: FakeServer
) -> None:
    server.plays("/v1/alerts/silences", says(replace(SILENCE, name=None, subject=None)))
    result = user.run("admin", "alerts", "silence")
    assert result.status == 78 and "--yes" in result.stderr
    assert server.requests == []
    assert user.run("admin", "alerts", "silence", "--yes").status == 0
