"""docs/rest.md is true: its commands are sent to a real server, and its tables are the code's."""

import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3

from potluck.cli.account.keys import DEFAULT_SCOPES
from potluck.model import error
from potluck.model.account import SCOPES, Credential, Scope
from potluck.wire import codec, routes
from potluck.wire.problem import Problem, to_error
from potluck.wire.routes import Route
from potluck.wire.strict_types import StrictRegisterNode
from tests.architecture.repository_files import DOCS
from tests.processes import Api, ServerProcess

PAGE = (DOCS / "rest.md").read_text()
CURLS = re.findall(r"^\$ (curl .+)$", PAGE, re.MULTILINE)
OUTLINE = ["POST /register_gpu", "POST /submit_task", "GET /task_status", "GET /resources"]
ROUTES = [value for value in vars(routes).values() if isinstance(value, Route)]
DATA = b"the bytes of a file"


class Curl:
    """As much of curl as the page uses."""

    def __init__(self, line: str, variables: dict[str, str]) -> None:
        for name, value in variables.items():
            line = line.replace(f"${name}", value)
        words = iter(shlex.split(line)[1:])
        self.method, self.url, self.body = "GET", "", b""
        self.headers: dict[str, str] = {}
        for word in words:
            match word:
                case "-X":
                    self.method = next(words)
                case "-H":
                    name, _, value = next(words).partition(": ")
                    self.headers[name] = value
                case "-d":
                    self.body = next(words).encode()
                case "-o":
                    next(words)
                case "-s" | "-i" | "-N":
                    pass
                case _:
                    assert not self.url, f"more than one address: {line}"
                    self.url = word
        assert "$" not in self.url, line

    def send(self) -> urllib3.BaseHTTPResponse:
        return urllib3.request(
            self.method, self.url, headers=self.headers, body=self.body or None, timeout=30
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("rest")) as running:
        yield running


@pytest.fixture(scope="module")
def variables(server: ServerProcess) -> dict[str, str]:
    api = server.client()
    key = api.post(routes.MAKE_KEY.path, {"name": "my-program", "scopes": DEFAULT_SCOPES})["secret"]
    task_id = api.submit("print(1)")
    api.call("POST", routes.CANCEL_TASK.url(task_id=task_id))
    return {
        "POTLUCK_URL": server.url,
        "POTLUCK_TOKEN": key,
        "NODE_TOKEN": "none",
        "TASK": task_id,
        "SHA256": _uploaded(api),
    }


def _uploaded(api: Api) -> str:
    sha256 = hashlib.sha256(DATA).hexdigest()
    blob = {"sha256": sha256, "size_bytes": len(DATA)}
    upload = api.post(routes.BEGIN_UPLOAD.path, {"blob": blob})["upload_id"]
    part = routes.PUT_PART.url(upload_id=upload, number="0")
    api.call("PUT", part, DATA, Content_Type="application/octet-stream")
    api.call("POST", routes.FINISH_UPLOAD.url(upload_id=upload))
    return sha256


@pytest.mark.parametrize("line", [curl for curl in CURLS if "NODE_TOKEN" not in curl])
def test_a_command_does_what_the_page_says(variables: dict[str, str], line: str) -> None:
    response = Curl(line, variables).send()
    assert response.status in (200, 201), response.data


def test_a_machine_registers_with_what_the_page_shows(variables: dict[str, str]) -> None:
    """Nobody else can sign for its device; all but that is read."""
    (line,) = [curl for curl in CURLS if "NODE_TOKEN" in curl]
    registration = Curl(line, variables)
    assert (registration.method, registration.url) == (
        "POST",
        variables["POTLUCK_URL"] + routes.REGISTER_NODE.path,
    )
    offer = codec.decode_json(registration.body.replace("0x…".encode(), b"0x"), StrictRegisterNode)
    assert offer.description.devices[0].uuid == offer.statements[0].uuid
    assert registration.send().status == 401


@pytest.mark.parametrize("endpoint", OUTLINE)
def test_the_outline_s_endpoints_are_mapped_and_shown(endpoint: str) -> None:
    (row,) = re.findall(
        rf"^\| `{endpoint}` \| \[`(\w+) ([^`]+)`\]\(#([\w-]+)\)", PAGE, re.MULTILINE
    )
    method, path, anchor = row
    assert Route(method, path) in ROUTES
    assert anchor == endpoint.lower().replace(" /", "-").replace("/", "")
    section = PAGE.partition(f"\n### {endpoint}\n")[2].partition("\n### ")[0]
    filled = re.escape(path).replace(r"\{task_id\}", r"\$TASK")
    assert re.search(rf"curl .*POTLUCK_URL{filled}[\"? ]", section), f"no curl for {endpoint}"


def test_every_path_on_the_page_exists() -> None:
    known_paths = {route.path for route in ROUTES}
    shapes = [re.sub(r"{\w+}", "[^/]+", path) for path in known_paths]
    named_paths = set(re.findall(r"(?<![\w.])(/v1/[\w/{}$-]+)", PAGE))
    unknown_paths = [
        path for path in named_paths if not any(re.fullmatch(shape, path) for shape in shapes)
    ]
    assert len(named_paths) > 10 and not unknown_paths


def test_the_table_of_scopes_says_who_can_have_each() -> None:
    section = PAGE.partition("\n## Scopes\n")[2].partition("\n## ")[0]
    scope_rows = dict(re.findall(r"^\| `([\w:]+)` \| [^|]+ \| ([^|]+) \|$", section, re.MULTILINE))
    assert {Scope(scope) for scope in scope_rows} == set(Scope)
    assert {scope for scope, holders in scope_rows.items() if "by default" in holders} == set(
        DEFAULT_SCOPES
    )
    assert {scope for scope, holders in scope_rows.items() if holders.startswith("keys")} == SCOPES[
        Credential.KEY
    ]
    assert {scope for scope, holders in scope_rows.items() if "session" in holders} == SCOPES[
        Credential.SESSION
    ]


@pytest.mark.parametrize("path", ["/v1/me", "/v1/events", "/v1/events/follow"])
def test_the_page_s_own_key_opens_what_it_recommends(variables: dict[str, str], path: str) -> None:
    token = f"Bearer {variables['POTLUCK_TOKEN']}"
    response = urllib3.request(
        *("GET", variables["POTLUCK_URL"] + path),
        headers={"Authorization": token},
        timeout=30,
        preload_content=False,
    )
    response.close()
    assert response.status == 200


def test_the_table_of_codes_is_the_tree_of_errors() -> None:
    documented_codes = dict(re.findall(r"^\| `(\w+)` \| (\d{3}) \|", PAGE, re.MULTILINE))
    assert documented_codes == {kind.code: str(kind.status) for kind in error.network_errors()}
    (example,) = re.findall(r"^```json\n(.+?)\n```", PAGE, re.MULTILINE | re.DOTALL)
    problem = codec.decode_json(example, Problem)
    assert isinstance(to_error(problem), error.NotFound)
    fields: dict[str, Any] = json.loads(example)
    assert list(fields) == list(Problem.__struct_fields__)
