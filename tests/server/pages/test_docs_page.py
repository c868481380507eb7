"""The API page in a real browser: every operation, under our policy, tried from the page itself."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.processes import Api, ServerProcess

# The document is made when it is first asked for, and drawn in full: on a busy machine that takes.
expect.set_options(timeout=30_000)


@pytest.fixture
def document(anybody: Api) -> Any:
    return anybody.get("/schema/openapi.json")


@pytest.fixture
def docs(server: ServerProcess, page: Page) -> Page:
    """Wide as a desk; drawn in full."""
    page.set_viewport_size({"width": 1400, "height": 900})
    page.set_default_timeout(30_000)
    page.goto(f"{server.url}/docs")
    expect(page.locator("article").last).to_be_attached()
    return page


def test_every_operation_is_shown_with_words_and_examples(docs: Page, document: Any) -> None:
    expected = {
        operation["operationId"]: (operation["summary"], method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    articles = docs.locator("article").evaluate_all(
        """found => found.map((each) => [
          each.id,
          each.querySelector("h3").textContent,
          each.querySelector(".path").textContent,
          each.querySelectorAll(".sample pre").length,
        ])"""
    )
    assert {article[0] for article in articles} == expected.keys()
    for name, title, path, samples in articles:
        assert title == expected[name][0] and path.endswith(expected[name][2]) and samples == 2
    areas = docs.locator("nav h2").all_text_contents()
    assert areas == [tag["name"] for tag in document["tags"]]
    assert docs.locator("nav li").count() == len(expected)
    expect(docs.locator("#trouble")).to_be_hidden()


def test_an_operation_is_found_and_tried(server: ServerProcess, docs: Page) -> None:
    docs.get_by_label("Find an operation").fill("see your account")
    expect(docs.locator("nav li:visible")).to_have_count(1)
    docs.locator("nav li:visible a").click()
    me = docs.locator("article#me")
    expect(me).to_be_in_viewport()
    me.get_by_text("Try it").click()
    me.get_by_role("button", name="Send").click()
    expect(me.locator(".try .sample")).to_contain_text("not_signed_in")
    docs.get_by_label("Token or API key").fill(server.token)
    me.get_by_role("button", name="Send").click()
    expect(me.locator(".try .sample header")).to_contain_text("200")
    expect(me.locator(".try .sample")).to_contain_text(server.wallet.address)


def test_a_task_is_submitted_and_read_from_the_page(server: ServerProcess, docs: Page) -> None:
    docs.get_by_label("Token or API key").fill(server.token)
    submit = docs.locator("article#submit_task")
    submit.get_by_text("Try it").click()
    submit.get_by_role("button", name="Send").click()
    sample = submit.locator(".try .sample pre")
    expect(sample).to_contain_text('"state": "queued"')
    (task,) = [
        task for task in server.client().get("/v1/tasks")["tasks"] if task["name"] == "hello"
    ]
    article = docs.locator("article#get_task")
    article.get_by_text("Try it").click()
    article.get_by_label("task_id (path)").fill(task["id"])
    article.get_by_role("button", name="Send").click()
    expect(article.locator(".try .sample pre")).to_contain_text(task["id"])


def test_fields_are_opened_one_by_one(docs: Page) -> None:
    submit = docs.locator("article#submit_task")
    requirements = submit.locator(".fields > li", has_text="requirements").first
    requirements.get_by_text("more").click()
    expect(requirements).to_contain_text("device_memory_bytes")
    expect(submit).to_contain_text("unaffordable")


def test_light_and_dark_are_a_choice(docs: Page) -> None:
    def ground() -> str:
        return str(docs.evaluate("getComputedStyle(document.documentElement).backgroundColor"))

    root = docs.locator("html")
    docs.emulate_media(color_scheme="light")
    expect(root).to_have_attribute("data-theme", "light")
    light = ground()
    docs.emulate_media(color_scheme="dark")
    expect(root).to_have_attribute("data-theme", "dark")
    dark = ground()
    assert light != dark
    docs.get_by_title("Use the other theme").click()
    assert ground() == light
    docs.reload()
    expect(docs.locator("article").last).to_be_attached()
    assert ground() == light, "it is remembered"


def test_the_page_fits_a_phone_screen(server: ServerProcess, page: Page) -> None:
    page.goto(f"{server.url}/docs#submit_task")
    expect(page.locator("article#submit_task")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_front_page_leads_there(server: ServerProcess, page: Page) -> None:
    page.goto(server.url)
    page.get_by_text("The API").click()
    expect(page.locator("h1")).to_have_text("The API of this pool")
