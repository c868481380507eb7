"""The names that programs may rely on; removing one breaks somebody."""

import inspect
import subprocess
import sys
from collections.abc import Callable

import potluck
import potluck.consumer
from potluck.consumer.client import AREAS


def test_the_names_of_the_consumer_are_pinned() -> None:
    assert potluck.consumer.__all__ == ["Follow", "Patience", "Potluck", "Result"]
    assert all(hasattr(potluck.consumer, name) for name in potluck.consumer.__all__)


def test_the_client_is_found_at_the_top() -> None:
    assert potluck.Potluck is potluck.consumer.Potluck


def test_the_names_at_the_top_are_pinned() -> None:
    assert potluck.__all__ == [
        "Executor",
        "Potluck",
        "PotluckError",
        "RemoteError",
        "RemoteFunction",
        "TaskFailed",
        "TaskFuture",
        "TaskMap",
        "UntrustedResult",
        "__version__",
        "aio",
        "flush",
        "task",
    ]
    assert all(hasattr(potluck, name) for name in potluck.__all__)
    assert {*potluck.__all__} <= {*dir(potluck)}, "also before they are used"


def test_the_options_of_a_task_are_pinned() -> None:
    from potluck.consumer.functions.options import FunctionOptions

    assert sorted(FunctionOptions.__annotations__) == [
        *("after", "allow_pickle", "attempts", "capability", "checkpoint", "client", "cores"),
        *("deadline", "delay", "dependencies", "device_kind", "disk", "env", "environment"),
        *(
            "expected",
            "file",
            "files",
            "folder",
            "fraction",
            "from_wallets",
            "gpu",
            "keep",
            "keep_running",
        ),
        *(
            "label",
            "labels",
            "log_limit",
            "max_price",
            "max_result",
            "memory",
            "min_reliability",
            "model",
            "name",
            "network",
            "network_limit",
        ),
        *(
            "owner",
            "owners",
            "prepare_time",
            "priority",
            "processes",
            "progress",
            "ram",
            "requirements",
            "retries",
            "sandbox",
            "secret",
        ),
        *(
            "secrets",
            "secrets_to_strangers",
            "share",
            "show_output",
            "stop_after_silence",
            "time",
            "timeout",
        ),
        *("trust", "vendor", "volume", "vram"),
    ]


# Each method of each part of the client, with its parameters; one that may be left out has a `?`.
PARTS = {
    "account": [
        "authorise_node_key(delegation, machine)",
        "challenge()",
        "choose_roles(roles)",
        "end_session(session_id)",
        "keys()",
        "log_out()",
        "make_key(name, scopes, expires_in)",
        "me()",
        "node_keys()",
        "revoke_key(key_id)",
        "revoke_keys()",
        "revoke_node_key(node_key_id)",
        "sessions()",
    ],
    "admin": [
        "accounts()",
        "alerts(before?, limit?)",
        "audit(before?, limit?)",
        "claimants()",
        "cordon(node_id, reason?)",
        "end_silence(silence_id)",
        "epochs()",
        "errors(limit?)",
        "events()",
        "grant(account_id, amount_micro)",
        "history(hours?)",
        "invite(wanted)",
        "invites()",
        "mark_paid(payouts)",
        "payouts()",
        "remove_node(node_id, reason?)",
        "resume(account_id)",
        "resume_payouts()",
        "revoke(account_id, amount_micro, reason)",
        "revoke_invite(invite_id)",
        "rotate_key(new_key?)",
        "set_label(account_id, label)",
        "set_quota(account_id, quota)",
        "set_roles(account_id, roles)",
        "silence_alerts(wanted)",
        "statement(epoch)",
        "status()",
        "suspend(account_id, reason?)",
        "take(account_id, amount_micro, reason)",
        "tasks(account_id?, states?, kind?, since?, until?)",
        "test_alerts()",
        "uncordon(node_id)",
        "verify_audit()",
    ],
    "events": [
        "all(cursor?, *, kinds?, task_id?)",
        "follow(cursor?, *, kinds?, task_id?, on_gap?)",
        "list(limit?, cursor?, *, kinds?, task_id?, newest_first?)",
    ],
    "files": [
        "bring(files, directory, task_id, on_progress?, *, overwrite?)",
        "download(blob, path, on_progress?)",
        "download_bytes(blob, most_bytes?)",
        "fetch(task_id, directory, attempt?, on_progress?, *, overwrite?)",
        "of_task(task_id, attempt?)",
        "upload(path, on_progress?)",
        "upload_bytes(data)",
        "upload_folder(directory, on_progress?)",
        "upload_packed(named, on_progress?)",
    ],
    "ledger": [
        "balance()",
        "entries(kinds?, *, task_id?, since?, until?)",
        "page(cursor?, kinds?, *, task_id?, since?, until?, limit?)",
        "summary(by?, *, since?, until?)",
    ],
    "own_nodes": [
        "change(node_id, change)",
        "earnings(since?, until?)",
        "explain(node_id)",
        "history(device_id)",
        "order(node_id, order, devices?)",
        "price_history(device_id, limit?)",
        "suggest_price(device_id)",
    ],
    "receipts": [
        "attempts(side?)",
        "export(side?, node_id?, after?, most?)",
        "page(side?, cursor?, limit?)",
        "signed(side?, node_id?)",
    ],
    "resources": [
        "devices(cursor?, *, kind?, model?, free_milli?, memory_bytes?, "
        "max_price_micro_per_hour?, vendor?, labels?, min_reliability?, limit?)",
        "market()",
        "node(node_id)",
        "nodes()",
        "pool()",
    ],
    "results": [
        "get(task_id, *, allow_pickle?, from_wallets?, max_result_bytes?)",
        "raw(task_id, behind?)",
    ],
    "rewards": [
        "choose(rewards_to)",
        "claim_proof()",
        "contract()",
        "epochs()",
        "get(since?)",
        "payouts()",
        "signer()",
        "statement(epoch)",
    ],
    "tasks": [
        "attempts(task_id, cursor?, *, item?, limit?)",
        "cancel(task_id)",
        "estimate(request)",
        "explain(task_id)",
        "failed_items(task_id, cursor?, limit?)",
        "follow(task_id, on_gap?)",
        "get(task_id)",
        "list(limit?, cursor?, states?, *, name?, kind?, since?, until?)",
        "logs(task_id, attempt?, offset?)",
        "retry(task_id, *, all_items?, secrets?, trust?, secrets_to_strangers?)",
        "submit(request)",
        "wait(task_id)",
    ],
    "volumes": [
        "add(name, added, on_progress?)",
        "fetch(name, directory, path?, version?, on_progress?, *, as_file?)",
        "files(name, version?)",
        "get(name)",
        "keep(name, *, versions?, seconds?)",
        "list()",
        "put(name, sources, *, on_progress?)",
        "remove(name, version?)",
        "share(name, wallets)",
        "unshare(name, wallets)",
    ],
    "webhooks": [
        "add(url, *, kinds?, name?, task_id?)",
        "change(webhook_id, *, url?, name?, kinds?)",
        "deliveries(webhook_id, limit?, cursor?)",
        "get(webhook_id)",
        "list()",
        "pause(webhook_id)",
        "redeliver(webhook_id, delivery_id)",
        "remove(webhook_id)",
        "resume(webhook_id, *, skip_missed?)",
        "rotate(webhook_id)",
        "test(webhook_id)",
    ],
}


def test_the_parts_of_the_client_are_pinned() -> None:
    with potluck.Potluck("http://127.0.0.1:9", "secret") as client:
        areas = {name: getattr(client, name) for name in AREAS}
    assert {name: _calls(area) for name, area in areas.items()} == PARTS


def test_an_area_of_the_client_is_imported_when_it_is_first_used() -> None:
    check = (
        "import sys, potluck; client = potluck.Potluck('http://127.0.0.1:9', 'secret');"
        " client.tasks; assert client.tasks is client.tasks;"
        " print({f'potluck.consumer.{name}' for name in ('admin', 'files', 'webhooks', 'result')}"
        " & {*sys.modules})"
    )
    command = [sys.executable, "-c", check]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"


RESULT = [
    *("cost", "cost_micro", "detail", "exit_code", "failed_items", "files", "is_over", "items"),
    *("kept_until", "log", "logs", "name", "ok", "reason", "refresh", "state", "stderr", "stdout"),
    *("task", "task_id", "usage", "value", "values", "wait"),
]


def test_the_attributes_of_a_result_are_pinned() -> None:
    assert [name for name in dir(potluck.consumer.Result) if not name.startswith("_")] == RESULT


def test_the_bridge_is_pinned() -> None:
    assert potluck.aio.__all__ == ["Each", "call", "each"]


def _calls(part: object) -> list[str]:
    methods = inspect.getmembers(type(part), inspect.isroutine)
    return [_call(name, method) for name, method in methods if not name.startswith("_")]


def _call(name: str, method: Callable[..., object]) -> str:
    parameter_names: list[str] = []
    for parameter in list(inspect.signature(method).parameters.values())[1:]:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameter_names:
            parameter_names.append("*")
        parameter_names.append(
            parameter.name if parameter.default is parameter.empty else f"{parameter.name}?"
        )
    return f"{name}({', '.join(parameter_names)})"


def test_importing_potluck_is_light() -> None:
    check = "import sys, potluck; print({'urllib3', 'msgspec', 'typer', 'rich'} & {*sys.modules})"
    command = [sys.executable, "-c", check]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    assert process.stdout == "set()\n"
