"""A consumer's work on the dashboard: submit, watch, look at the result, cancel, retry."""

import json
import re
from pathlib import Path

from playwright.sync_api import expect

from tests.processes import ProviderProcess, ServerProcess
from tests.web.dashboard_page import DashboardPage

# A red square of 8 × 8 pixels, a table and some text.
PICTURE = """
import os, struct, zlib
from pathlib import Path

def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

rows = b"".join(b"\\0" + b"\\xff\\0\\0" * 8 for _ in range(8))
png = b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0))
png += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
output = Path(os.environ["POTLUCK_OUTPUT"])
(output / "square.png").write_bytes(png)
(output / "table.csv").write_text('name,value\\n"a, b",1\\n')
(output / f"{'n' * 240}.txt").write_text("a long name")
print("the square is drawn")
print("and the square is kept")
"""
WAIT = "import time\nprint('waiting', flush=True)\ntime.sleep(600)\n"


def submit(dashboard: DashboardPage, source: str, name: str) -> None:
    page = dashboard.page
    dashboard.open("/submit")
    page.get_by_role("group", name="What to run").get_by_role("button", name="Script").click()
    page.get_by_label(re.compile("Source of")).fill(source)
    page.get_by_label("Name", exact=True).fill(name)
    expect(page.locator("[data-matching]")).to_contain_text("1device matches")
    dashboard.press("Submit the task")
    dashboard.expect_title(name)


def test_a_task_is_submitted_watched_and_its_picture_seen(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    submit(dashboard, PICTURE, "square")
    expect(page.get_by_role("region", name="Log")).to_contain_text("the square is drawn")
    expect(page.locator("header").get_by_text("succeeded")).to_be_visible()
    search = page.get_by_label("Search in the log")
    search.fill("square")
    expect(page.get_by_text("2 matches")).to_be_visible()
    search.press("Enter")
    expect(page.get_by_text("1 of 2")).to_be_visible()
    page.get_by_role("tab", name="Files").click()
    picture = page.get_by_role("img", name="Output of the task: square.png")
    expect(picture).to_be_visible()
    expect(picture).to_have_js_property("naturalWidth", 8)
    page.get_by_role("button", name=re.compile("table.csv")).click()
    expect(page.get_by_role("cell", name="a, b")).to_be_visible()
    page.get_by_role("button", name=re.compile("nnnn")).click()
    expect(page.get_by_text("a long name")).to_be_visible()
    page.get_by_role("tab", name="Attempts and usage").click()
    expect(page.get_by_text("Memory peak")).to_be_visible()


def test_a_folder_is_sent_without_what_its_gitignore_excludes(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "project"
    long_name = f"{'ü' * 60}.txt"
    for name in (".gitignore", "data/in.txt", f"data/{long_name}", "data/out.log"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("*.log\n")
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open("/submit?what=script")
    source = "import os\nprint([*sorted(os.listdir('data')), open('data/in.txt').read()])"
    page.get_by_label(re.compile("Source of")).fill(source)
    page.get_by_label("Folder", exact=True).set_input_files(folder)
    dashboard.press("Submit the task")
    sent = str(["in.txt", long_name, "*.log\n"])
    expect(page.get_by_role("region", name="Log")).to_contain_text(sent)


def test_a_script_may_be_dropped_anywhere_on_the_page(
    dashboard: DashboardPage, server: ServerProcess
) -> None:
    """Otherwise the browser would leave the page and show the file."""
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open("/submit?what=script")
    expect(page.get_by_label("Source of task.py")).to_be_visible()
    files = page.evaluate_handle(
        """() => {
            const files = new DataTransfer();
            files.items.add(new File(["print('dropped')"], "dropped.py"));
            return files;
        }"""
    )
    page.dispatch_event("h1", "drop", {"dataTransfer": files})
    expect(page.get_by_label("Source of dropped.py")).to_have_value("print('dropped')")


def test_options_of_the_table_reach_the_task_and_mistakes_stand_at_their_fields(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    dashboard.sign_in(server.wallet)
    dashboard.open("/submit?what=command")
    page.get_by_label("Command").fill("/bin/true")
    page.get_by_label("RAM", exact=True).fill("64")
    page.get_by_text("More options").click()
    expect(page.get_by_text("Write it with its unit, like 8GB, 512MB or 1.5GiB.")).to_be_visible()
    expect(page.get_by_text("It needs a correction of RAM.")).to_be_visible()
    for title, text in (("Attempts", "3"), ("Env", "SEED=42\nMODE=a b"), ("Delay", "1h")):
        page.get_by_label(title, exact=True).fill(text)
    page.get_by_label("Secret", exact=True).fill("TOKEN=hush")
    dashboard.press("Submit the task")
    expect(page.get_by_label("RAM", exact=True)).to_be_focused()
    page.get_by_label("RAM", exact=True).fill("1MiB")
    expect(page.get_by_text("RAM: expected 16 MiB or more.")).to_be_visible()
    page.get_by_label("RAM", exact=True).fill("64MiB")
    dashboard.press("Submit the task")
    dashboard.expect_title("true")
    api, task_id = server.client(), page.url.rsplit("/", 1)[1]
    earlier = api.get(f"/v1/tasks/{task_id}/request")
    assert earlier["request"]["spec"]["environment"] == {"SEED": "42", "MODE": "a b"}
    assert (earlier["request"]["max_attempts"], earlier["secret_count"]) == (3, 1)
    assert earlier["request"]["delay_seconds"] == 3600
    assert earlier["request"]["requirements"]["memory_bytes"] == 64 * 2**20
    page.get_by_role("link", name="Again, with changes").click()
    expect(page.get_by_label("Attempts", exact=True)).to_have_value("3")
    expect(page.get_by_label("Delay", exact=True)).to_have_value("1h")
    expect(page.get_by_label("Env", exact=True)).to_have_value("SEED=42\nMODE=a b")
    api.post(f"/v1/tasks/{task_id}/cancel", {})


def test_a_search_finds_parts_of_names(dashboard: DashboardPage, server: ServerProcess) -> None:
    page = dashboard.page
    dashboard.sign_in("searches")
    assert dashboard.wallet is not None
    api = server.client(server.sign_in(dashboard.wallet.wallet))
    for name in ("train-resnet.py", "eval-resnet.py", "train-bert.py"):
        api.submit("print()", name=name, requirements={"device_memory_bytes": 2**49})
    dashboard.open("/tasks")
    search = page.get_by_label("Search by name")
    search.press_sequentially("RESNET")  # it holds without the Enter key
    expect(page.get_by_role("link", name="train-bert.py")).to_be_hidden()
    expect(search).to_be_focused()
    expect(page.get_by_role("link", name="resnet.py")).to_have_count(2)
    expect(page.get_by_role("button", name="queued 2")).to_be_visible()
    dashboard.press("Cancel all …")
    expect(page.get_by_role("dialog", name="Cancel 2 tasks")).to_be_visible()
    dashboard.press("Back")
    search.fill("nowhere")
    search.press("Enter")
    expect(page.get_by_text("No task has “nowhere” in its name.")).to_be_visible()


def test_the_list_filters_by_state_in_its_address_and_cancels_with_a_preview(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    api = server.client()
    ended_id = api.submit("print()", name="over already")
    api.finished(ended_id)
    waiting = [api.submit(WAIT, name=f"waits {number}") for number in (1, 2)]
    dashboard.sign_in(server.wallet)
    dashboard.open("/tasks?name=waits+1")
    expect(page.get_by_role("link", name="waits 1")).to_be_visible()
    expect(page.get_by_role("link", name="over already")).to_be_hidden()
    dashboard.open("/tasks")
    for name in ("waits 1", "waits 2", "over already"):
        page.get_by_label(f"Select {name}", exact=True).check()
    dashboard.press("Cancel …")
    dialog = page.get_by_role("dialog", name="Cancel 2 tasks")
    expect(dialog).to_contain_text("waits 1")
    dialog.get_by_text("1 selected task will not be touched").click()
    expect(dialog).to_contain_text("over already: already succeeded")
    dialog.get_by_role("button", name="Cancel 2 tasks").click()
    expect(dialog.get_by_text("cancelled")).to_have_count(2)
    for task_id in waiting:
        assert api.finished(task_id)["state"] == "cancelled"
    assert api.task(ended_id)["state"] == "succeeded"
    dialog.get_by_role("button", name="Close").first.click()
    page.get_by_role("group", name="States").get_by_role("button", name="cancelled").click()
    expect(page).to_have_url(re.compile("state=cancelled"))
    expect(page.get_by_role("link", name="over already")).to_be_hidden()


def test_a_waiting_task_says_why_and_a_change_appears_by_itself(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    api = server.client()
    task_id = api.submit("print()", name="wants a card", requirements={"device_kind": "gpu"})
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/tasks/{task_id}")
    expect(page.get_by_role("heading", name="Why it waits")).to_be_visible()
    expect(page.get_by_text("no device of the requested kind").first).to_be_visible()
    api.post(f"/v1/tasks/{task_id}/cancel", {})
    expect(page.locator("header").get_by_text("cancelled")).to_be_visible()


def test_a_failed_task_shows_its_error_and_is_retried(
    dashboard: DashboardPage, server: ServerProcess, provider: ProviderProcess
) -> None:
    page = dashboard.page
    api = server.client()
    task_id = api.submit("raise ValueError('negative rate')", name="broken")
    api.finished(task_id)
    dashboard.sign_in(server.wallet)
    dashboard.open(f"/tasks/{task_id}")
    expect(page.get_by_label("The end of its error output")).to_contain_text("negative rate")
    dashboard.press("Retry")
    dashboard.press("Submit it again")
    expect(page.get_by_text("retry of")).to_be_visible()
    assert not page.url.endswith(task_id)


def test_an_amount_keeps_all_its_digits(dashboard: DashboardPage, server: ServerProcess) -> None:
    """More than a number of JavaScript can hold."""
    dashboard.sign_in("rich")
    assert dashboard.wallet is not None
    rich = server.client(server.sign_in(dashboard.wallet.wallet)).get("/v1/me")["id"]
    for amount in (2**53, 2**53 - 1):
        body = json.dumps({"amount_micro": amount}).encode()
        assert server.client().call("POST", f"/v1/accounts/{rich}/grants", body).status == 204
    dashboard.open("/account")
    expect(dashboard.page.get_by_text("18,014,398,509.481983").first).to_be_visible()
