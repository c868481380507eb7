"""The conversation with a server that is slow, silent, forgetful or strict."""

import asyncio
import runpy
import time
from collections.abc import Coroutine
from pathlib import Path

import aiohttp
import msgspec
import pytest

from potluck.model.error import (
    BadSettings,
    Forbidden,
    InvalidInput,
    NodeKeyRefused,
    NotSignedIn,
    ServerUnreachable,
)
from potluck.model.task import EndReason
from potluck.provider.announcement import ServerAnswers, ServerSilent
from potluck.provider.change_counter import ChangeCounter
from potluck.provider.event import FinishAccepted, Granted, ItemsAccepted, LeaseLost
from potluck.provider.server import heartbeat
from potluck.provider.server.heartbeat import HeartbeatContent, Pulse, beat_forever
from potluck.provider.server.http import Exchange, ServerRequest, open_session
from potluck.provider.server.lease_poll import Rhythm, acquire_forever
from potluck.provider.server.report import ReportSender
from potluck.provider.server.server_client import open_node_client
from potluck.store.new_ids import new_node_id
from potluck.wire import routes
from potluck.wire.provider import (
    Finished,
    ItemOutcome,
    ItemsDone,
    NodeRegistered,
    RegisterNode,
    Reports,
    Started,
)
from tests.processes import free_port
from tests.provider.builders import KEY, a_grant, a_lease, completed, lease_of, settings_for
from tests.provider.fake_server import SERVER_NOT_READY, FakeServer
from tests.provider.server.connected_client import (
    REGISTRATION,
    Provider,
    during,
    linked,
    saying,
    until,
)


def polling_for(wait_seconds: float) -> Rhythm:
    """Of a node that has nothing to report."""
    return Rhythm(wait_seconds, 0.02, asyncio.Event().wait)


async def test_registration_keeps_the_id_that_the_server_gives(server: FakeServer) -> None:
    async with linked(server) as provider:
        assert provider.ids == [provider.link.node_id]
        assert server.registrations == [REGISTRATION]


async def test_the_first_contact_fails_at_once_and_clearly(server: FakeServer) -> None:
    server.is_silent = True
    with pytest.raises(ServerUnreachable) as error_info:
        async with linked(server):
            pass
    assert server.url in error_info.value.detail
    assert "potluck up" in error_info.value.hint


async def test_connection_errors_have_short_reasons() -> None:
    url, patience = f"http://127.0.0.1:{free_port()}", aiohttp.ClientTimeout(total=5)
    async with open_session(url, None) as session:
        with pytest.raises(ServerUnreachable) as error_info:
            request = ServerRequest(routes.HEALTHZ, routes.HEALTHZ.path, b"", patience)
            await Exchange(session, url).send(request, object)
    assert error_info.value.detail == f"No server answers at {url} (Connection refused)."


@pytest.mark.parametrize("refusal", [NotSignedIn("Unknown token."), Forbidden("Not a provider.")])
async def test_a_refusal_at_registration_is_final(
    server: FakeServer, refusal: NotSignedIn | Forbidden
) -> None:
    server.fails_with = refusal
    with pytest.raises(type(refusal)):
        async with linked(server):
            pass


async def test_news_do_not_wait_for_the_next_heartbeat(server: FakeServer) -> None:
    news = ChangeCounter()
    async with linked(server) as provider:
        content = saying(tuple, news)
        heartbeats = beat_forever(
            provider.link, content, provider.tell, provider.hear, 60.0, Pulse()
        )
        async with during(heartbeats), asyncio.timeout(20):
            news.change()
            await news.until_known()
            assert len(server.beats) == 1, "and says it once"


async def test_a_poll_that_tells_of_wishes_hurries_the_heartbeat(server: FakeServer) -> None:
    news = ChangeCounter()
    server.has_wishes = True
    async with linked(server) as provider:
        polling = acquire_forever(
            provider.link, saying(tuple, news), provider.tell, Pulse(), polling_for(0.1)
        )
        async with during(polling), asyncio.timeout(20):
            await news.until_stale()


async def test_a_device_that_another_wallet_claims_is_contested(server: FakeServer) -> None:
    server.bound_elsewhere = {"cpu-1"}
    async with linked(server) as provider:
        await provider.link.register()
    assert [registration.contest for registration in server.registrations] == [True, True], (
        "and stays so"
    )


async def test_a_refused_message_is_reported_and_not_repeated(server: FakeServer) -> None:
    async with linked(server) as provider:
        server.bound_elsewhere = {"nothing"}
        with pytest.raises(InvalidInput):
            await provider.link.renew()
        server.bound_elsewhere = set()
        await provider.link.renew()


async def test_grants_and_stops_are_announced(server: FakeServer) -> None:
    grant, (stopped, _) = a_grant(), a_lease()
    async with linked(server) as provider:
        polling = acquire_forever(
            provider.link, saying(lambda: (stopped,)), provider.tell, Pulse(), polling_for(0.5)
        )
        async with during(polling):
            await server.call_off(stopped.attempt_id)
            await server.offer(grant)
            expected = provider.heard(Granted(grant), LeaseLost(stopped.attempt_id))
            await server.until(expected, "both")


async def test_after_a_grant_a_report_goes_before_the_next_poll(server: FakeServer) -> None:
    grant, next_one = a_grant(), a_grant()
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        rhythm = Rhythm(0.5, 60.0, sender.answered)
        polling = acquire_forever(provider.link, saying(tuple), provider.tell, Pulse(), rhythm)
        async with during(polling), during(sender.run()):
            await server.offer(grant)
            await until(provider.heard(Granted(grant)))
            polls = len(server.polls)
            await server.offer(next_one)
            await asyncio.sleep(0.1)
            assert len(server.polls) == polls
            sender.send(completed(lease_of(grant)))
            await until(provider.heard(FinishAccepted(grant.attempt_id), Granted(next_one)))


async def test_an_idle_node_still_polls(server: FakeServer) -> None:
    first, second = a_grant(), a_grant()
    async with linked(server) as provider:
        polling = acquire_forever(
            provider.link, saying(tuple), provider.tell, Pulse(), polling_for(0.5)
        )
        async with during(polling):
            await server.offer(first)
            await until(provider.heard(Granted(first)))
            await server.offer(second)
            await until(provider.heard(Granted(second)))


async def test_a_grant_whose_answer_was_lost_comes_again(server: FakeServer) -> None:
    grant = a_grant()
    async with linked(server) as provider:
        server.swallow_answers = 2
        await server.offer(grant)
        polling = acquire_forever(
            provider.link, saying(tuple), provider.tell, Pulse(), polling_for(0.5)
        )
        async with during(polling):
            await server.until(provider.heard(Granted(grant)), "the grant")
    assert len(server.polls) >= 3


async def test_a_server_that_repeats_itself_does_not_make_us_spin(server: FakeServer) -> None:
    await server.offer(a_grant())
    async with linked(server) as provider:
        # Nothing comes of the grant and it is never acknowledged, so every poll answers at once.
        polling = acquire_forever(
            provider.link, saying(tuple), lambda _: False, Pulse(), polling_for(0.5)
        )
        async with during(polling), asyncio.timeout(30):
            await server.until(lambda: len(server.polls) >= 3, "three polls")
            before, started = len(server.polls), asyncio.get_running_loop().time()
            await server.until(lambda: len(server.polls) >= before + 10, "ten more")
            assert asyncio.get_running_loop().time() - started > 0.05


async def test_polls_of_an_idle_node_carry_its_heartbeats(server: FakeServer) -> None:
    pulse, content = Pulse(), saying(tuple)
    async with linked(server) as provider:
        polling = polling_of(provider, content, pulse)
        heartbeats = beat_forever(provider.link, content, provider.tell, provider.hear, 0.5, pulse)
        async with during(heartbeats), during(polling), asyncio.timeout(30):
            await server.until(
                lambda: sum(poll.beat is not None for poll in server.polls) >= 8, "eight beats"
            )
            assert server.beats == [], "and no request of their own"
            content.news.change()
            await server.until(lambda: len(server.beats) == 1, "news do not wait for a poll")


async def test_a_server_without_heartbeats_in_polls_gets_separate_ones(server: FakeServer) -> None:
    server.takes_beats = False
    pulse, content = Pulse(), saying(tuple)
    async with linked(server) as provider:
        polling = polling_of(provider, content, pulse)
        heartbeats = beat_forever(provider.link, content, provider.tell, provider.hear, 60.0, pulse)
        async with during(heartbeats), during(polling):
            await server.until(lambda: len(server.beats) >= 1, "the first is not awaited")
        pulse.start(0.05)
        heartbeats = beat_forever(provider.link, content, provider.tell, provider.hear, 0.05, pulse)
        async with during(heartbeats), during(polling_of(provider, content, pulse)):
            await server.until(lambda: len(server.beats) >= 4, "more")


async def test_a_lease_is_renewed_by_heartbeats_of_their_own(server: FakeServer) -> None:
    lease, _ = a_lease()
    pulse, content = Pulse(), saying(lambda: (lease,))
    async with linked(server) as provider:
        heartbeats = beat_forever(provider.link, content, provider.tell, provider.hear, 0.05, pulse)
        async with during(heartbeats), during(polling_of(provider, content, pulse)):
            await server.until(lambda: len(server.beats) >= 3, "three beats")
    assert all(poll.beat is None for poll in server.polls)


def polling_of(
    provider: Provider, content: HeartbeatContent, pulse: Pulse
) -> Coroutine[None, None, None]:
    return acquire_forever(provider.link, content, provider.tell, pulse, polling_for(0.05))


async def test_heartbeats_list_held_leases_and_return_stops(server: FakeServer) -> None:
    lease, _ = a_lease()
    async with linked(server) as provider:
        heartbeats = beat_forever(
            provider.link, saying(lambda: (lease,)), provider.tell, provider.hear, 0.02, Pulse()
        )
        async with during(heartbeats):
            await server.until(lambda: len(server.beats) >= 3, "three beats")
            await server.call_off(lease.attempt_id)
            await server.until(provider.heard(LeaseLost(lease.attempt_id)), "the stop")
    assert server.beats[0].held == (lease,)
    assert server.beats[-1].memory_used_bytes > 0


async def test_an_outage_is_survived_and_its_end_reported(server: FakeServer) -> None:
    async with linked(server) as provider:
        server.is_silent = True
        async with during(
            beat_forever(provider.link, saying(tuple), provider.tell, provider.hear, 0.01, Pulse())
        ):
            calls = server.calls
            await until(lambda: server.calls >= calls + 3)
            server.is_silent = False
            await server.until(lambda: bool(server.beats), "a beat after the outage")
            await server.until(lambda: len(provider.announced) == 2, "both announcements")
    silent, server_answers = provider.announced
    assert isinstance(silent, ServerSilent)
    assert isinstance(server_answers, ServerAnswers)


@pytest.mark.parametrize("error", [SERVER_NOT_READY, NotSignedIn("Unknown token.")])
async def test_errors_that_may_pass_are_waited_out(server: FakeServer, error: NotSignedIn) -> None:
    lease, _ = a_lease()
    async with linked(server) as provider:
        server.fails_with = error
        call = asyncio.create_task(provider.link.report(lambda: Reports((Started(lease),))))
        calls = server.calls
        await server.until(lambda: server.calls >= calls + 9, "several tries")
        server.fails_with = None
        await call
    assert server.reports == [Started(lease)]
    assert [
        announcement.code
        for announcement in provider.announced
        if isinstance(announcement, ServerSilent)
    ] == [error.code]


@pytest.mark.parametrize("status", [200, 302, 401, 500, 520])
async def test_errors_of_a_proxy_are_retried(server: FakeServer, status: int) -> None:
    """Also while signing in: the token is gone, so the login meets the page too."""
    lease, _ = a_lease()
    async with linked(server) as provider:
        server.tokens.clear()
        server.foreign = (status, "<html>nginx</html>")
        call = asyncio.create_task(provider.link.report(lambda: Reports((Started(lease),))))
        calls = server.calls
        await server.until(lambda: server.calls >= calls + 5, "several tries")
        server.foreign = None
        await asyncio.wait_for(call, 30)
    assert server.reports == [Started(lease)]


async def test_one_refused_login_is_not_the_end_of_a_key(server: FakeServer) -> None:
    lease, _ = a_lease()
    async with linked(server) as provider:
        server.tokens.clear()
        server.refused_logins = 1
        await provider.link.report(lambda: Reports((Started(lease),)))
    assert server.reports == [Started(lease)]


async def test_a_token_that_ended_early_is_replaced(server: FakeServer) -> None:
    lease, _ = a_lease()
    async with linked(server) as provider:
        server.tokens.clear()
        reports = Reports((Started(lease),))
        await asyncio.gather(*(provider.link.report(lambda: reports) for _ in range(5)))
    assert len(server.tokens) == 1, "one signs in for all"
    assert provider.announced == [], "nobody need hear of it"


async def test_the_next_token_is_fetched_before_the_last_one_ends(server: FakeServer) -> None:
    server.token_seconds = 0.2
    async with linked(server) as provider:
        first = set(server.tokens)
        async with during(
            beat_forever(provider.link, saying(tuple), provider.tell, provider.hear, 0.01, Pulse())
        ):
            await server.until(lambda: len(server.tokens) >= 3, "two more tokens")
    assert first < set(server.tokens)


async def test_a_revoked_key_ends_the_conversation(server: FakeServer) -> None:
    async with linked(server) as provider:
        server.takes_keys = False
        server.tokens.clear()
        with pytest.raises(NodeKeyRefused) as error_info:
            await asyncio.wait_for(
                beat_forever(
                    provider.link, saying(tuple), provider.tell, provider.hear, 0.01, Pulse()
                ),
                30,
            )
    assert KEY.address in error_info.value.detail
    assert "revoked" in error_info.value.detail


async def test_a_server_with_another_name_gets_no_signature(server: FakeServer) -> None:
    settings = settings_for(server.url.replace("127.0.0.1", "localhost"), Path("/nonexistent"))
    async with open_node_client(
        settings, KEY, lambda: REGISTRATION, lambda _: None, lambda _: None
    ) as link:
        with pytest.raises(BadSettings, match="uses the address"):
            await link.register()
    assert server.tokens == {}


async def test_a_server_that_forgot_the_node_gets_a_new_registration(server: FakeServer) -> None:
    async with linked(server) as provider:
        before = provider.link.node_id
        server.nodes.clear()
        lease, _ = a_lease()
        responses = await asyncio.gather(
            *(provider.link.report(lambda: Reports((Started(lease),))) for _ in range(5))
        )
        assert len(responses) == 5
        assert provider.link.node_id != before
        assert provider.ids == [before, provider.link.node_id]
    assert [registration.node_id for registration in server.registrations] == [None, before]


async def test_a_known_node_keeps_its_id(server: FakeServer) -> None:
    node_id = new_node_id()
    server.nodes.add(node_id)
    registration = RegisterNode(REGISTRATION.description, node_id)
    async with linked(server, registration) as provider:
        assert provider.link.node_id == node_id


async def test_reports_gather_and_keep_their_order(server: FakeServer) -> None:
    grants = [a_grant() for _ in range(20)]
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        for grant in grants:
            sender.send(Started(lease_of(grant)))
            sender.send(completed(lease_of(grant)))
        calls = server.calls
        async with during(sender.run()):
            expected = [FinishAccepted(grant.attempt_id) for grant in grants]
            await server.until(lambda: len(server.reports) == 40, "all reports")
            await until(provider.heard(*expected))
    assert server.calls == calls + 1
    assert server.reports[:2] == [Started(lease_of(grants[0])), completed(lease_of(grants[0]))]


async def test_a_finished_report_is_repeated_until_it_has_an_answer(server: FakeServer) -> None:
    lease, _ = a_lease()
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        server.swallow_answers = 2
        server.report_codes = ["internal"]
        sender.send(completed(lease))
        async with during(sender.run()):
            await until(provider.heard(FinishAccepted(lease.attempt_id)))
    assert server.reports == [completed(lease)] * len(server.reports)


async def test_reports_beyond_what_a_server_takes_at_once_follow_without_a_pause(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = [a_grant() for _ in range(4)]
    pauses: list[int] = []

    async def pause(tries: int, least_seconds: float = 0.0) -> None:
        pauses.append(tries)

    async with linked(server) as provider:
        monkeypatch.setattr(provider.link, "pause", pause)
        sender = ReportSender(provider.link, provider.tell)
        server.report_codes = ["stale_lease", "unavailable", "unavailable", "unavailable"]
        for grant in grants:
            sender.send(completed(lease_of(grant)))
        async with during(sender.run()):
            accepted = [FinishAccepted(grant.attempt_id) for grant in grants[1:]]
            await until(provider.heard(LeaseLost(grants[0].attempt_id), *accepted))
    assert pauses == []


async def test_reports_behind_a_repeated_report_are_repeated_too(server: FakeServer) -> None:
    grant = a_grant(items=range(1))
    lease = lease_of(grant)
    items = ItemsDone(lease, (ItemOutcome(0, EndReason.COMPLETED, 0.1, 0),))
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        server.report_codes = ["internal"]  # of the items; the end is taken
        sender.send(items)
        sender.send(completed(lease))
        async with during(sender.run()):
            await until(provider.heard(ItemsAccepted(items), FinishAccepted(lease.attempt_id)))
    assert [type(event) for event in provider.events] == [ItemsAccepted, FinishAccepted]


async def test_a_closed_device_is_reported_before_its_reclaim(server: FakeServer) -> None:
    lease, _ = a_lease()
    news = ChangeCounter()
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        sender.let_pass(news.until_known)
        news.change()
        sender.send(Finished(lease, EndReason.RECLAIMED))
        async with during(sender.run()):
            await asyncio.sleep(0.1)
            assert not server.reports
            news.acknowledge(news.changes)
            await until(provider.heard(FinishAccepted(lease.attempt_id)))


@pytest.mark.parametrize("code", ["stale_lease", "conflict", "not_found"])
async def test_a_refused_report_means_that_the_attempt_is_lost(
    server: FakeServer, code: str
) -> None:
    lease, _ = a_lease()
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        server.report_codes = [code]
        sender.send(completed(lease))
        async with during(sender.run()):
            await until(provider.heard(LeaseLost(lease.attempt_id)))
    assert server.reports == []


async def test_an_unreadable_report_does_not_delay_others(server: FakeServer) -> None:
    (bad, _), (good, _), (other, _) = a_lease(), a_lease(), a_lease()
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        sender.send(completed(other))
        # A line break is not allowed there; the server refuses the whole call.
        sender.send(type(completed(bad))(bad, completed(bad).reason, detail="two\nlines"))
        sender.send(completed(good))
        async with during(sender.run()):
            expected = provider.heard(LeaseLost(bad.attempt_id), FinishAccepted(good.attempt_id))
            await until(expected)
    assert server.reports == [completed(other), completed(good)]


async def test_reports_keep_their_order_when_sent_one_by_one(server: FakeServer) -> None:
    bad, _ = a_lease()
    lease = lease_of(a_grant(items=range(1)))
    items = ItemsDone(lease, (ItemOutcome(0, EndReason.COMPLETED, 0.1, 0),))
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        sender.send(Finished(bad, EndReason.COMPLETED, detail="two\nlines"))  # so: one by one
        server.report_codes = ["internal"]  # of the items, the first time
        sender.send(items)
        sender.send(completed(lease))
        async with during(sender.run()):
            await until(provider.heard(FinishAccepted(lease.attempt_id)))
    assert server.reports == [items, completed(lease)]


async def test_withdrawn_reports_are_not_sent(server: FakeServer) -> None:
    (withdrawn_lease, _), (stays, _) = a_lease(), a_lease()
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        sender.send(Started(withdrawn_lease))
        sender.send(Started(stays))
        sender.withdraw(withdrawn_lease.attempt_id)
        async with during(sender.run()):
            await server.until(lambda: bool(server.reports), "a report")
    assert server.reports == [Started(stays)]


async def test_reports_withdrawn_during_an_outage_are_not_sent_after_it(server: FakeServer) -> None:
    (withdrawn_lease, _), (stays, _) = a_lease(), a_lease()
    async with linked(server) as provider:
        sender = ReportSender(provider.link, provider.tell)
        server.is_silent = True
        sender.send(completed(withdrawn_lease))
        async with during(sender.run()):
            await tries(server)
            sender.withdraw(withdrawn_lease.attempt_id)
            sender.send(Started(stays))
            await tries(server)  # the call that was on its way then is over
            server.is_silent = False
            await server.until(lambda: bool(server.reports), "a report")
    assert server.reports == [Started(stays)]


async def test_a_heartbeat_after_an_outage_lists_the_leases_held_then(server: FakeServer) -> None:
    (old, _), (new, _) = a_lease(), a_lease()
    held_leases = [old]
    async with linked(server) as provider:
        server.is_silent = True
        async with during(
            beat_forever(
                provider.link,
                saying(lambda: tuple(held_leases)),
                provider.tell,
                provider.hear,
                0.01,
                Pulse(),
            )
        ):
            await tries(server)
            held_leases[:] = [new]
            await tries(server)  # the call that was on its way then is over
            server.is_silent = False
            await server.until(lambda: bool(server.beats), "a beat")
    assert server.beats[0].held == (new,)


async def tries(server: FakeServer) -> None:
    """Waits for two more calls, so for one at least that began after this."""
    calls = server.calls
    await until(lambda: server.calls >= calls + 2)


def test_silence_is_measured_where_there_are_no_clocks_to_be_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on Windows, where the module must be imported at all."""
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "clock_gettime"):
        monkeypatch.delattr(time, name, raising=False)
    module = runpy.run_path(str(heartbeat.__file__))
    assert module["Pulse"]().silence_seconds() < 5


def test_a_servers_version_can_do_nothing_to_a_terminal() -> None:
    fields = {"node_id": "node_01j00000000000000000000000", "device_ids": [], "lease_seconds": 1.0}
    fields |= {"heartbeat_seconds": 1.0, "poll_seconds": 1.0}
    registered_node = msgspec.convert({**fields, "server_version": "0.9.0"}, NodeRegistered)
    assert registered_node.server_version == "0.9.0"
    for version in ("\x1b[2J", "0.9\n1.0", "9" * 2_000):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({**fields, "server_version": version}, NodeRegistered)
