"""What else a consumer does on the dashboard: a template, saved views, webhooks, credit."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from playwright.sync_api import expect

from tests.processes import ProviderProcess, ServerProcess, await_true
from tests.web.dashboard_page import DashboardPage


def test_a_template_is_submitted_with_a_parameter_and_runs(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open("/submit?what=template")
    page.get_by_label("Template").select_option("hello")
    expect(page.locator("[data-matching]")).to_contain_text("1device matches")
    dashboard.press("Submit the task")
    dashboard.expect_title("hello")
    expect(page.locator("header").get_by_text("succeeded")).to_be_visible()
    expect(page.get_by_role("region", name="Log")).not_to_contain_text("Nothing yet")
    task_id = page.url.rsplit("/", 1)[1]
    assert server.client().task(task_id)["state"] == "succeeded"


def test_a_parameter_of_a_template_reaches_the_task(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open("/submit?template=mandelbrot")
    page.get_by_label("width").fill("64")
    expect(page.locator("[data-matching]")).to_be_visible()
    dashboard.press("Submit the task")
    dashboard.expect_title("mandelbrot")
    task_id = page.url.rsplit("/", 1)[1]
    spec = server.client().get(f"/v1/tasks/{task_id}/request")["request"]["spec"]
    assert "--width=64" in spec["arguments"]
    assert [file["path"] for file in spec["files"]] == ["mandelbrot.cl"], "its files came along"
    server.client().post(f"/v1/tasks/{task_id}/cancel", {})


def test_a_view_is_saved_chosen_and_removed(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in("saves views")
    dashboard.open("/tasks?state=failed&kind=script")
    dashboard.press("Save this view")
    page.get_by_label("Name", exact=True).fill("broken scripts")
    dashboard.press("Save")
    link = page.get_by_role("link", name="broken scripts")
    expect(link).to_be_visible()
    dashboard.open("/tasks")
    link.click()
    expect(page).to_have_url(re.compile("state=failed"))
    expect(page).to_have_url(re.compile("kind=script"))
    page.reload()  # it is kept by the server, not by the browser
    expect(link).to_be_visible()
    page.get_by_role("button", name="Remove the view broken scripts").click()
    expect(link).to_be_hidden()
    dashboard.open("/market")
    expect(page.get_by_role("link", name="broken scripts")).to_be_hidden()


def test_a_webhook_is_added_tested_paused_and_removed(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in("hears of tasks")
    with receiver() as (url, bodies):
        dashboard.open("/webhooks")
        page.get_by_label("Address").fill(url)
        dashboard.press("Add the webhook")
        secret = page.get_by_role("dialog", name="The webhook's secret")
        expect(secret).to_contain_text("whsec_")
        secret.get_by_role("button", name="Close").first.click()
        dashboard.press("Send a test")
        expect(page.get_by_text("A test event was delivered")).to_be_visible()
        await_true(lambda: bodies, "the receiver got it")
        assert json.loads(bodies[0])["kind"] == "webhook.test"
        dashboard.press("Pause")
        expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
        dashboard.press("Resume")
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        dashboard.press("Remove")
        dashboard.press("Remove it")
        expect(page.get_by_text("You have no webhooks.")).to_be_visible()


@contextmanager
def receiver() -> Iterator[tuple[str, list[bytes]]]:
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web_server:
        thread = threading.Thread(target=web_server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{web_server.server_port}/hook", bodies
        finally:
            web_server.shutdown()
            thread.join()


def test_credit_is_shown_by_task_and_as_movements_in_words(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in("has credit")
    assert dashboard.wallet is not None
    account = server.client(server.sign_in(dashboard.wallet.wallet)).get("/v1/me")["id"]
    for path, body in (
        ("grants", {"amount_micro": 5_000_000}),
        ("takes", {"amount_micro": 1_000_000, "reason": "too much"}),
    ):
        response = server.client().call(
            "POST", f"/v1/accounts/{account}/{path}", json.dumps(body).encode()
        )
        assert response.status == 204
    dashboard.open("/account")
    expect(page.get_by_role("row", name="Without a task 4.000000")).to_be_visible()
    dashboard.press("Every movement")
    expect(page.get_by_role("cell", name="Granted by an admin")).to_be_visible()
    expect(page.get_by_role("row", name="Taken back by an admin")).to_contain_text("−1.000000")
    expect(page.get_by_text("Devices at once")).to_be_visible()
