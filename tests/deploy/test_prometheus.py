"""A running pool, scraped by Prometheus: every expression runs, and alerts reach a receiver."""

import json
import re
from functools import partial
from itertools import pairwise

from scripts.dashboard import PATH
from tests.deploy.monitored_pool import Watched
from tests.deploy.monitoring import hurried, read_rules
from tests.processes import await_true

_NAME = re.compile(r"\bpotluck[_:][\w:]+|\bprocess_\w+")


def test_both_programs_are_scraped(watched: Watched) -> None:
    both = {"potluck": "up", "potluck-provider": "up", "potluck-tls": "down"}
    await_true(lambda: watched.prometheus.targets() == both, "both targets are up")
    api = watched.server.client()
    assert api.finished(api.submit("print('hello')"))["state"] == "succeeded"
    prometheus = watched.prometheus
    for expression in (
        "potluck_tasks_finished_total{state='succeeded'} == 1",
        "potluck_attempts_ended_total{reason='completed'} == 1",
        "potluck_task_start_seconds_count == 1",
        "potluck_provider_attempts_ended_total{reason='completed'} == 1",
        "potluck_provider_sandbox_start_seconds_count >= 1",
        "potluck_provider_connected == 1",
        "potluck_devices_offered >= 1",
    ):
        await_true(partial(prometheus.query, expression), expression)


def test_every_expression_runs_and_returns_series_where_there_are_some(watched: Watched) -> None:
    prometheus, api = watched.prometheus, watched.server.client()
    panels = json.loads(PATH.read_text())["panels"]
    panel_expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    recorded = [hurried(rule["expr"]) for rule in read_rules() if "record" in rule]
    expressions = [
        *(expression.replace("$__rate_interval", "30s") for expression in panel_expressions),
        *recorded,
    ]

    def empty() -> list[str]:
        """A rate needs two samples, and the objectives something that has just happened."""
        api.submit("print(1)", requirements={"memory_bytes": 2**50})  # one that waits
        api.finished(api.submit("print(1)"))
        metric_names = prometheus.metric_names()
        return [
            expression
            for expression in expressions
            if set(_NAME.findall(expression)) <= metric_names
            and " < " not in expression  # of what is bad, and is not there
            and not prometheus.query(expression)
        ]

    await_true(lambda: not empty(), "all that have data return series")
    for expression in (*expressions, *(rule["expr"] for rule in read_rules())):
        prometheus.query(expression)
    assert not prometheus.unhealthy_rules()


def test_a_killed_provider_fires_an_alert_that_resolves_when_it_is_back(watched: Watched) -> None:
    watched.provider.kill()
    fired = watched.receiver.await_state("NodeLost", "firing")
    assert fired["labels"]["severity"] == "warning"
    assert fired["annotations"]["summary"] == "1 node(s) stopped sending heartbeats."
    assert fired["annotations"]["runbook_url"] == f"{watched.server.url}/runbook#nodelost"
    watched.start_provider()
    watched.receiver.await_state("NodeLost", "resolved")
    # On a busy machine its heartbeats may be late again: each time is told once, and its end.
    states = watched.receiver.states("NodeLost")
    assert states[0] == "firing" and all(state != two for state, two in pairwise(states)), states


def test_a_killed_leader_fires_an_alert_that_resolves_when_one_leads_again(
    watched: Watched,
) -> None:
    watched.server.kill()
    fired = watched.receiver.await_state("NoLeader", "firing")
    assert fired["labels"]["severity"] == "critical"
    watched.start_server()
    watched.receiver.await_state("NoLeader", "resolved")
