"""Texts of users and providers on every page that shows them: inert, and within the policy.

The `page` fixture fails a test whose page had a dialog, an error or a violation.
"""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.processes import Api, ProviderProcess, ServerProcess
from tests.wallets import Wallet
from tests.web.dashboard_page import DashboardPage

# Each would call `alert` in a page that takes text for something else.
PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg onload=alert(3)>",
    "\"><iframe srcdoc='<script>parent.alert(4)</script>'>",
    "javascript:alert(5)",
    "'-alert(6)-'",
    "${alert(7)}",
    "{{constructor.constructor('alert(8)')()}}",
    "</title><script>alert(9)</script>",
    "<a href=javascript:alert(10)>x</a>",
    "<style>@import'//elsewhere.example'</style>",
    "<math><mtext></p><img src=x onerror=alert(12)>",
]
TEXT = " ".join(PAYLOADS)
SHORT = PAYLOADS[1]
FILES = """
import os, sys
from pathlib import Path
output = Path(os.environ["POTLUCK_OUTPUT"])
for number, text in enumerate(TEXTS):
    name = text.replace("/", "_")
    (output / f"{number} {name}.html").write_text(text)
(output / "table.csv").write_text("\\n".join(f'"{text}"' for text in TEXTS).replace('""', '"'))
(output / "picture.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
(output / "lie.png").write_text("<script>alert(1)</script>")
for text in TEXTS:
    print(text)
    print(text, file=sys.stderr)
raise ValueError(" ".join(TEXTS))
"""


@pytest.fixture(scope="module")
def task_ids(server: ServerProcess, provider: ProviderProcess) -> list[str]:
    """A task for each payload as its name, and one whose log, files and error have all of them."""
    api = server.client()
    plain_ids = [
        api.submit("print()", name=text, requirements={"device_kind": "gpu"}) for text in PAYLOADS
    ]
    loud = api.submit(f"TEXTS = {json.dumps(PAYLOADS)}\n{FILES}", name="loud")
    assert api.finished(loud)["state"] == "failed"
    return [*plain_ids, loud]


@pytest.fixture(scope="module")
def machine(server: ServerProcess) -> str:
    """A machine of somebody who chose its texts: name, labels, model, vendor, driver, reasons."""
    node = server.node("rude node key")
    key = Wallet("rude node key")
    device = {
        "kind": "gpu",
        "uuid": "GPU-rude",
        "vendor": SHORT,
        "model": TEXT[:190],
        "driver": TEXT[:190],
        "memory_bytes": 2**34,
        "interface": SHORT,
    }
    description = {
        "name": SHORT,
        "platform": SHORT,
        "python_version": "3.11.2",
        "potluck_version": SHORT,
        "cores": 4,
        "memory_bytes": 2**34,
        "disk_bytes": 2**34,
        "sandbox": {"driver": "bwrap", "memory": SHORT, "processes": SHORT, "syscalls": SHORT},
        "devices": [device],
        "labels": [SHORT],
    }
    statement = key.state(server.url, "GPU-rude")
    registration = node.post("/v1/nodes", {"description": description, "statements": [statement]})
    assert "node_id" in registration, registration
    node_id: str = registration["node_id"]
    admin = server.client()
    admin.call("POST", f"/v1/nodes/{node_id}/cordon", json.dumps({"reason": TEXT[:190]}).encode())
    return node_id


@pytest.fixture(scope="module")
def texts_of_account(server: ServerProcess) -> None:
    """Labels, notes, names of keys, webhooks and sessions."""
    api = server.client()
    stranger = Wallet("rude stranger")
    api_of_stranger = server.client(server.sign_in(stranger))
    account = api_of_stranger.get("/v1/me")["id"]
    # Its events are shown to admins with the label.
    api_of_stranger.submit("print()", name=SHORT, requirements={"device_kind": "gpu"})
    view = {"page": "tasks", "name": SHORT, "query": "state=failed"}
    assert api.call("PUT", "/v1/me/views", json.dumps({"views": [view]}).encode()).status < 300
    for method, path, value in (
        ("PUT", f"/v1/accounts/{account}/label", {"label": TEXT[:190]}),
        ("POST", f"/v1/accounts/{account}/suspend", {"reason": SHORT}),
        ("POST", "/v1/invites", {"note": TEXT[:190]}),
        ("POST", "/v1/me/keys", {"name": TEXT[:90], "scopes": ["tasks:read"]}),
        ("POST", "/v1/webhooks", {"url": "http://127.0.0.1:9/x", "name": TEXT[:90]}),
        ("POST", "/v1/alerts/silences", {"comment": TEXT[:190], "subject": SHORT}),
    ):
        response = api.call(method, path, json.dumps(value).encode())
        assert response.status < 300, response.data


def read(page: Page) -> str:
    text: str = page.locator("body").inner_text()
    return text


def test_texts_of_tasks_are_inert(
    dashboard: DashboardPage, server: ServerProcess, task_ids: list[str]
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open("/tasks")
    for text in PAYLOADS:
        expect(page.get_by_role("link", name=text, exact=True)).to_be_visible()
    for task_id in task_ids[: len(PAYLOADS)]:
        dashboard.open(f"/tasks/{task_id}")
        expect(page.get_by_role("heading", name="Why it waits")).to_be_visible()
    loud = task_ids[-1]
    dashboard.open(f"/tasks/{loud}")
    expect(page.get_by_role("region", name="Log")).to_contain_text(PAYLOADS[-1])
    assert SHORT in read(page)
    for name in [f"{number} {text.replace('/', '_')}.html" for number, text in enumerate(PAYLOADS)]:
        dashboard.open(f"/tasks/{loud}?tab=files")
        page.get_by_role("button", name=name).click()
        expect(page.locator("#tab-panel pre")).not_to_be_empty()
    for name in ("table.csv", "picture.svg", "lie.png"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.get_by_text("not a picture that a browser can show")).to_be_visible()


def test_texts_of_machines_are_inert(
    dashboard: DashboardPage, server: ServerProcess, machine: str
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    for path in ("/machines", f"/machines/{machine}", "/market", "/operator/nodes"):
        dashboard.open(path)
        expect(page.get_by_text(SHORT).first).to_be_visible()


def test_texts_of_accounts_are_inert(
    dashboard: DashboardPage, server: ServerProcess, texts_of_account: None
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    for path in ("/operator/accounts", "/keys", "/webhooks", "/operator/alerts"):
        dashboard.open(path)
        expect(page.get_by_text(PAYLOADS[0]).first).to_be_visible()
    dashboard.open("/operator/audit")
    dashboard.expect_title("Audit")
    expect(page.get_by_role("row").first).to_be_visible()
    assert "alert" in read(page), "the audit log has the reasons and names"
    page.get_by_role("button", name="Account labelled").first.click()
    expect(page.get_by_role("dialog")).to_contain_text(PAYLOADS[0])
    dashboard.open("/operator")
    expect(page.get_by_label("Events")).to_contain_text(PAYLOADS[0])
    dashboard.open("/tasks")
    expect(page.get_by_role("link", name=SHORT, exact=True).first).to_be_visible()


def test_texts_of_terminals_are_inert(dashboard: DashboardPage, server: ServerProcess) -> None:
    page = dashboard.page
    for text in PAYLOADS:
        approval = Api(server.url, "").post("/v1/auth/device", {"machine": text})
        dashboard.open(f"/device#{approval['user_code']}")
        page.reload()
        expect(page.locator("bdi")).to_have_text(text)


@pytest.mark.parametrize("path", ["/tasks?name={}", "/market?model={}", "/operator/nodes?find={}"])
def test_texts_in_the_address_are_inert(
    dashboard: DashboardPage, server: ServerProcess, path: str
) -> None:
    dashboard.sign_in(server.wallet)
    for text in PAYLOADS[:4]:
        encoded: Any = dashboard.page.evaluate("encodeURIComponent", text)
        dashboard.open(path.format(encoded))
        expect(dashboard.page.get_by_role("heading", level=1)).to_be_visible()
        expect(dashboard.page.locator("[data-search]")).to_have_value(text)
