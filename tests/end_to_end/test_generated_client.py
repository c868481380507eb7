"""A client in no hand of ours: made from the document, it signs in, submits, follows and fetches.

Every call below is a generated one. What is ours is the wallet, and the words of the message.
"""

import base64
import hashlib
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.end_to_end.generated_client import Generated, generate, imported
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true
from tests.wallets import Wallet

SCRIPT = """
import pathlib
words = pathlib.Path("words.txt").read_text()
pathlib.Path("output/count.txt").write_text(str(len(words.split())))
print("counted", words)
"""
WORDS = b"everyone brings a GPU"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    top = tmp_path_factory.mktemp("generated")
    with ServerProcess(top) as server, ProviderProcess(top, server, **FAST_PROVIDER):
        yield server


@pytest.fixture(scope="module")
def generated(
    server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Generated]:
    document, directory = (
        server.client("").get("/schema/openapi.json"),
        tmp_path_factory.mktemp("g"),
    )
    generate(document, directory)
    with imported(document, directory) as package:
        yield package


@pytest.fixture(scope="module")
def signed_in(server: ServerProcess, generated: Generated) -> Iterator[Any]:
    """Registered by signing in: challenge, signature, login."""
    wallet = Wallet("of a generated client")
    with generated.package.Client(server.url) as stranger:
        challenge = generated.api("challenge").sync(client=stranger)
        message = wallet.message(challenge.to_dict())
        login = generated.model("Login")(message=message, signature=wallet.sign_text(message))
        tokens = generated.api("login").sync(client=stranger, body=login)
    assert tokens.address == wallet.address
    with generated.package.AuthenticatedClient(server.url, tokens.access_token) as client:
        yield client


def test_every_operation_of_the_document_is_generated(generated: Generated) -> None:
    for operation in generated.operations():
        assert callable(generated.api(operation).sync_detailed), operation


def test_a_task_is_submitted_followed_and_fetched(generated: Generated, signed_in: Any) -> None:
    task = _submit(generated, signed_in)
    stream_text = generated.api("follow_task").sync(task.id, client=signed_in)
    ended_task = await_true(lambda: _final(generated, signed_in, task.id), "it ends")
    assert (ended_task.state.value, ended_task.exit_code) == ("succeeded", 0)

    events = [
        json.loads(line[6:]) for line in stream_text.splitlines() if line.startswith("data: ")
    ]
    states = [event["task"]["state"] for event in events if event["event"] == "state"]
    assert states[-1] == "succeeded"
    log = generated.api("task_logs").sync(task.id, client=signed_in)
    text = b"".join(base64.b64decode(piece.data) for piece in log.pieces)
    assert text == b"counted " + WORDS + b"\n"
    files = generated.api("task_files").sync(task.id, client=signed_in)
    (file,) = files.files
    assert file.path == "count.txt"
    blob = generated.api("get_blob").sync(file.blob.sha256, client=signed_in)
    assert blob.payload.read() == b"4"


def test_known_content_is_not_sent_again(generated: Generated, signed_in: Any) -> None:
    me = generated.api("me")
    first = me.sync_detailed(client=signed_in)
    repeated = me.sync_detailed(client=signed_in, if_none_match=first.headers["ETag"])
    assert (first.status_code, repeated.status_code, repeated.parsed) == (200, 304, None)


def test_an_error_is_a_problem_with_a_code(generated: Generated, signed_in: Any) -> None:
    unknown_id = "task_01jd0000000000000000000000"
    problem = generated.api("get_task").sync(unknown_id, client=signed_in)
    assert isinstance(problem, generated.model("Problem"))
    assert (problem.status, problem.code) == (404, "not_found")


def _submit(generated: Generated, client: Any) -> Any:
    request = generated.model("TaskRequest")(
        spec=generated.model("ScriptSpec")(
            kind="script", filename="count.py", source=SCRIPT, files=[_uploaded(generated, client)]
        ),
        requirements=generated.model("Requirements")(memory_bytes=2**27),
        name="counting",
    )
    submit = generated.api("submit_task")
    first = submit.sync(client=client, body=request, idempotency_key="generated-1")
    repeated = submit.sync(client=client, body=request, idempotency_key="generated-1")
    assert (first.state.value, repeated.id) == ("queued", first.id)
    return first


def _uploaded(generated: Generated, client: Any) -> Any:
    blob = generated.model("BlobRef")(hashlib.sha256(WORDS).hexdigest(), len(WORDS))
    begin_upload = generated.model("BeginUpload")(blob=blob)
    upload = generated.api("begin_upload").sync(client=client, body=begin_upload)
    part = generated.types.File(payload=io.BytesIO(WORDS))
    generated.api("put_part").sync(upload.upload_id, "0", client=client, body=part)
    finished = generated.api("finish_upload").sync(upload.upload_id, client=client)
    assert finished.complete
    return generated.model("NamedFile")(path="words.txt", blob=blob)


def _final(generated: Generated, client: Any, task_id: str) -> Any:
    task = generated.api("get_task").sync(task_id, client=client)
    return task if task.finished_at else None
