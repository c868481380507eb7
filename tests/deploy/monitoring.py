"""Debian's Prometheus and Alertmanager on loopback, and somebody who receives their alerts."""

import json
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3
import yaml  # type: ignore[import-untyped]

from tests.architecture.repository_files import ROOT
from tests.conftest import need
from tests.processes import await_true, free_port

RULES = ROOT / "deploy" / "prometheus" / "potluck.rules.yml"


def need_prometheus() -> None:
    for program in ("prometheus", "promtool", "prometheus-alertmanager"):
        if shutil.which(program) is None:
            need(program)


def read_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def hurried(rules: str) -> str:
    """The rules with seconds for minutes, and nothing that has to last."""
    without_wait = re.sub(r"for: \w+", "for: 0s", rules)
    return re.sub(r"\[\w+\]", "[5s]", without_wait)


class Receiver:
    """Takes what Alertmanager sends: the name and the state of each alert, in order."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        alerts = self.alerts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                alerts.extend(json.loads(body)["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def states(self, name: str) -> list[str]:
        return [alert["status"] for alert in self.alerts if alert["labels"]["alertname"] == name]

    def forget(self, name: str) -> None:
        self.alerts[:] = [alert for alert in self.alerts if alert["labels"]["alertname"] != name]

    def await_state(self, name: str, state: str) -> dict[str, Any]:
        def find() -> dict[str, Any]:
            own_alerts = [alert for alert in self.alerts if alert["labels"]["alertname"] == name]
            return own_alerts[-1] if own_alerts and own_alerts[-1]["status"] == state else {}

        return await_true(find, f"{name} is {state}", 60)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Program:
    def __init__(self, arguments: Sequence[str], directory: Path, url: str) -> None:
        self.url = url
        self._log = directory / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                arguments, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            await_true(self._is_ready, f"{arguments[0]} is ready")
        except BaseException:
            self.close()
            raise

    def _is_ready(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()[-2000:]
        try:
            return urllib3.request("GET", f"{self.url}/-/ready", retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


class Alertmanager(_Program):
    def __init__(self, directory: Path, receiver: Receiver) -> None:
        directory.mkdir()
        port = free_port()
        config = {
            "route": {
                "receiver": "test",
                "group_by": ["alertname"],
                "group_wait": "0s",
                "group_interval": "200ms",
                "repeat_interval": "1h",
            },
            "receivers": [
                {"name": "test", "webhook_configs": [{"url": receiver.url, "send_resolved": True}]}
            ],
        }
        (directory / "config.yml").write_text(yaml.safe_dump(config))
        arguments = (
            "prometheus-alertmanager",
            "--config.file=config.yml",
            "--storage.path=data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        )
        super().__init__(arguments, directory, f"http://127.0.0.1:{port}")


def _scrape(job: str, targets: list[str]) -> dict[str, Any]:
    """A job for TLS has it in its name."""
    scheme = "https" if job.endswith("tls") else "http"
    return {
        "job_name": job,
        "scheme": scheme,
        "tls_config": {"insecure_skip_verify": True},
        "scrape_timeout": "300ms",
        "static_configs": [{"targets": targets}],
    }


class Prometheus(_Program):
    def __init__(
        self, directory: Path, alertmanager: Alertmanager, targets: dict[str, list[str]]
    ) -> None:
        directory.mkdir()
        port = free_port()
        (directory / "rules.yml").write_text(hurried(RULES.read_text()))
        managers = [{"targets": [alertmanager.url.removeprefix("http://")]}]
        config = {
            "global": {
                "scrape_interval": "300ms",
                "evaluation_interval": "300ms",
                "external_labels": {"potluck_url": f"http://{next(iter(targets.values()))[0]}"},
            },
            "rule_files": ["rules.yml"],
            "alerting": {"alertmanagers": [{"static_configs": managers}]},
            "scrape_configs": [_scrape(job, target) for job, target in targets.items()],
        }
        (directory / "config.yml").write_text(yaml.safe_dump(config))
        arguments = (
            "prometheus",
            "--config.file=config.yml",
            "--storage.tsdb.path=data",
            f"--web.listen-address=127.0.0.1:{port}",
            "--rules.alert.resend-delay=500ms",
            "--log.level=warn",
        )
        super().__init__(arguments, directory, f"http://127.0.0.1:{port}")

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that it returns; fails if it cannot be evaluated."""
        response = urllib3.request(
            "GET", f"{self.url}/api/v1/query", fields={"query": expression}
        ).json()
        assert response["status"] == "success", (expression, response)
        assert not response.get("warnings"), response
        series: list[dict[str, Any]] = response["data"]["result"]
        return series

    def metric_names(self) -> set[str]:
        response = urllib3.request("GET", f"{self.url}/api/v1/label/__name__/values").json()
        return set(response["data"])

    def targets(self) -> dict[str, str]:
        """The health of each target, by job."""
        response = urllib3.request("GET", f"{self.url}/api/v1/targets").json()
        return {
            target["labels"]["job"]: target["health"]
            for target in response["data"]["activeTargets"]
        }

    def unhealthy_rules(self) -> list[dict[str, Any]]:
        groups = urllib3.request("GET", f"{self.url}/api/v1/rules").json()["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        return [rule for rule in rules if rule["health"] != "ok"]
