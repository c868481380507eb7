"""The rules for Prometheus and the dashboard for Grafana, without a running pool."""

import json
import re
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from potluck.local.metrics.definition import MetricKind
from potluck.model.alert import ALERTS as BUILT_IN
from potluck.model.alert import AlertName
from potluck.provider.metrics.definitions import TABLE as PROVIDER
from potluck.server.alerts.settings import AlertSettings
from potluck.server.metrics.definitions import TABLE
from scripts.dashboard import PATH, dashboard_text
from tests.architecture.repository_files import ROOT
from tests.deploy.monitoring import RULES, need_prometheus, read_rules

TESTS = [RULES.parent / "tests.yml", RULES.parent / "long_tests.yml"]
OBJECTIVES = {"AcknowledgementBudgetBurning", "StartBudgetBurning"}
ALERTS = [rule for rule in read_rules() if "alert" in rule]
_NAME = re.compile(r"\b(?:potluck|process)_[a-z_0-9]+")
_RECORDED = re.compile(r"\bpotluck:[\w:]+")


def exported() -> set[str]:
    """Every name that a series can have."""
    names = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"}
    for metric in (*TABLE, *PROVIDER):
        suffixes = {
            MetricKind.HISTOGRAM: ("_bucket", "_count", "_sum"),
            MetricKind.SUMMARY: ("_count", "_sum"),
        }.get(metric.kind, ("",))
        names.update(metric.name + suffix for suffix in suffixes)
    return names


def expressions() -> list[str]:
    panels = json.loads(PATH.read_text())["panels"]
    panel_expressions = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return [*panel_expressions, *(rule["expr"] for rule in read_rules())]


def promtool(*arguments: str | Path) -> None:
    need_prometheus()
    process = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr


def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", RULES)


def test_each_alert_fires_when_it_should_and_not_otherwise() -> None:
    promtool("test", "rules", *TESTS)


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    cases = "".join(path.read_text() for path in TESTS)
    for alert in {rule["alert"] for rule in ALERTS}:
        samples = re.findall(rf'alertname="{alert}".*\n.*\n *exp_samples: \[(.*)\]', cases)
        assert any(samples) and not all(samples), alert


def test_the_names_are_those_of_the_built_in_alerts() -> None:
    assert {rule["alert"] for rule in ALERTS} == set(AlertName) | OBJECTIVES


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_each_alert_has_a_severity_and_instructions(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    annotations = rule["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url"}
    page, anchor = annotations["runbook_url"].split("#")
    assert page == "{{ $externalLabels.potluck_url }}/runbook" and anchor == rule["alert"].lower()
    assert rule["alert"] in headings()


def headings() -> set[str]:
    """The sections of the runbook, one for each alert."""
    return set(re.findall(r"^### (.+)$", (ROOT / "docs/alerts.md").read_text(), re.MULTILINE))


def test_every_section_of_the_runbook_is_of_an_alert() -> None:
    assert headings() == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize("name", AlertName)
def test_severity_and_duration_are_those_of_the_built_in_alert(name: AlertName) -> None:
    (rule,) = [rule for rule in ALERTS if rule["alert"] == name]
    assert rule["labels"]["severity"] == BUILT_IN[name].severity
    assert _seconds(rule.get("for", "0s")) == BUILT_IN[name].for_seconds


DEFAULTS = {field.name: field.default for field in fields(AlertSettings)}


@pytest.mark.parametrize(
    ("name", "threshold", "setting", "unit"),
    [
        (AlertName.ERROR_RATE_HIGH, r"> ([\d.]+)$", "alert_error_share", 1),
        (AlertName.LATENCY_HIGH, r"> ([\d.]+)$", "alert_latency_seconds", 1),
        (AlertName.ERROR_RATE_HIGH, r">= (\d+)\)", "alert_least_requests", 1),
        (AlertName.LATENCY_HIGH, r">= (\d+)\)", "alert_least_requests", 1),
        (AlertName.CERTIFICATE_EXPIRING, r"< (\d+) \* 86400$", "alert_certificate_seconds", 86_400),
        (AlertName.LEADER_FLAPPING, r"> (\d+)$", "alert_leader_terms", 1),
        (AlertName.LEADER_FLAPPING, r"\[(\d+)m\]\) >", "alert_leader_seconds", 60),
    ],
)
def test_thresholds_are_the_defaults_of_the_settings(
    name: AlertName, threshold: str, setting: str, unit: int
) -> None:
    (rule,) = [rule for rule in ALERTS if rule["alert"] == name]
    threshold_match = re.search(threshold, rule["expr"].strip())
    assert threshold_match is not None and float(threshold_match[1]) * unit == DEFAULTS[setting]


def _seconds(text: str) -> float:
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def test_rules_and_panels_use_only_what_exists() -> None:
    recorded = {rule["record"] for rule in read_rules() if "record" in rule}
    for expression in expressions():
        assert set(_NAME.findall(expression)) <= exported(), expression
        assert set(_RECORDED.findall(expression)) <= recorded, expression


def test_the_dashboard_is_current() -> None:
    assert PATH.read_text() == dashboard_text(), "run `make dashboard`"


def test_the_dashboard_has_the_shape_that_grafana_reads() -> None:
    board = json.loads(PATH.read_text())
    assert board["schemaVersion"] >= 36 and board["uid"] and board["title"]
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("row", "stat", "timeseries")
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            references = [target["refId"] for target in panel["targets"]]
            assert references and len(set(references)) == len(references)
            assert all(target["expr"].strip() for target in panel["targets"])
    assert not [pair for pair in combinations(panels, 2) if _overlap(*pair)]
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == ["datasource"]


def _overlap(panel: dict[str, Any], other: dict[str, Any]) -> bool:
    a, b = panel["gridPos"], other["gridPos"]
    return all(
        a[p] < b[p] + b[size] and b[p] < a[p] + a[size] for p, size in (("x", "w"), ("y", "h"))
    )
