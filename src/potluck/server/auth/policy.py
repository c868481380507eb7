"""Who may call what, on one page. A route that is not here keeps the server from starting.

OPEN needs no credential. Anything else is a scope that the credential has to carry, or the one in
ALSO instead; the role that a scope takes is in `model/account.py`. What is somebody else's is not
found, whatever the scope.
"""

from typing import Final

from potluck.model.account import Scope

OPEN: Final = None

POLICY: dict[str, Scope | None] = {
    "front_page": OPEN,
    "device_page": OPEN,
    "docs_page": OPEN,
    "page_file": OPEN,
    "healthz": OPEN,
    "readyz": OPEN,
    "ca_certificate": OPEN,
    "package": OPEN,
    "package_file": OPEN,
    # signing in
    "challenge": OPEN,
    "login": OPEN,
    "refresh": OPEN,
    "logout": Scope.ACCOUNT_WRITE,
    "node_login": OPEN,
    "ask_for_terminal": OPEN,
    "terminal_token": OPEN,
    "show_terminal": OPEN,
    "draft_terminal": OPEN,
    "approve_terminal": OPEN,
    "deny_terminal": OPEN,
    # one's own account
    "me": Scope.ACCOUNT_READ,
    "choose_roles": Scope.ACCOUNT_WRITE,
    "list_sessions": Scope.ACCOUNT_WRITE,
    "end_session": Scope.ACCOUNT_WRITE,
    "list_keys": Scope.ACCOUNT_WRITE,
    "make_key": Scope.ACCOUNT_WRITE,
    "revoke_key": Scope.ACCOUNT_WRITE,
    "list_node_keys": Scope.ACCOUNT_WRITE,
    "authorise_node_key": Scope.ACCOUNT_WRITE,
    "revoke_node_key": Scope.ACCOUNT_WRITE,
    "earnings": Scope.ACCOUNT_READ,
    "ledger": Scope.ACCOUNT_READ,
    "ledger_summary": Scope.ACCOUNT_READ,
    "list_events": Scope.ACCOUNT_READ,
    "follow_events": Scope.ACCOUNT_READ,
    "list_webhooks": Scope.ACCOUNT_WRITE,
    "make_webhook": Scope.ACCOUNT_WRITE,
    "get_webhook": Scope.ACCOUNT_WRITE,
    "change_webhook": Scope.ACCOUNT_WRITE,
    "remove_webhook": Scope.ACCOUNT_WRITE,
    "test_webhook": Scope.ACCOUNT_WRITE,
    "rotate_webhook": Scope.ACCOUNT_WRITE,
    "pause_webhook": Scope.ACCOUNT_WRITE,
    "resume_webhook": Scope.ACCOUNT_WRITE,
    "list_deliveries": Scope.ACCOUNT_WRITE,
    "redeliver": Scope.ACCOUNT_WRITE,
    # tasks
    "submit_task": Scope.TASKS_WRITE,
    "submit_tasks": Scope.TASKS_WRITE,
    "estimate_task": Scope.TASKS_WRITE,
    "list_tasks": Scope.TASKS_READ,
    "get_task": Scope.TASKS_READ,
    "cancel_task": Scope.TASKS_WRITE,
    "retry_task": Scope.TASKS_WRITE,
    "follow_task": Scope.TASKS_READ,
    "explain_task": Scope.TASKS_READ,
    "task_logs": Scope.TASKS_READ,
    "list_attempts": Scope.TASKS_READ,
    "failed_items": Scope.TASKS_READ,
    "task_files": Scope.TASKS_READ,
    "get_blob": Scope.TASKS_READ,
    "begin_upload": Scope.TASKS_WRITE,
    "put_part": Scope.TASKS_WRITE,
    "finish_upload": Scope.TASKS_WRITE,
    "ask_results": Scope.TASKS_READ,
    # the pool
    "list_nodes": Scope.POOL_READ,
    "get_node": Scope.POOL_READ,
    "list_devices": Scope.POOL_READ,
    "show_pool": Scope.POOL_READ,
    # one's own machines, from elsewhere
    "explain_node": Scope.POOL_READ,
    "device_history": Scope.POOL_READ,
    "change_terms": Scope.NODES_WRITE,
    "give_order": Scope.NODES_WRITE,
    # a provider's machine
    "register_node": Scope.NODE,
    "acquire_leases": Scope.NODE,
    "heartbeat": Scope.NODE,
    "report": Scope.NODE,
    "append_log": Scope.NODE,
    "begin_node_upload": Scope.NODE,
    "put_node_part": Scope.NODE,
    "finish_node_upload": Scope.NODE,
    "get_input": Scope.NODE,
    "add_files": Scope.NODE,
    "keep_checkpoint": Scope.NODE,
    "answer_challenges": Scope.NODE,
    "leave": Scope.NODE,
    # the operator's work
    "list_accounts": Scope.ADMIN,
    "set_roles": Scope.ADMIN,
    "suspend_account": Scope.ADMIN,
    "resume_account": Scope.ADMIN,
    "grant_credit": Scope.ADMIN,
    "set_quota": Scope.ADMIN,
    "list_invites": Scope.ADMIN,
    "make_invite": Scope.ADMIN,
    "revoke_invite": Scope.ADMIN,
    "audit": Scope.ADMIN,
    "verify_audit": Scope.ADMIN,
    "rotate_key": Scope.ADMIN,
}

# Another scope that is enough: a program that minds its tasks hears of them, and knows who it is.
# Of the events it is told those of tasks alone; see `api/events.py`.
ALSO: dict[str, Scope] = {
    "me": Scope.TASKS_READ,
    "list_events": Scope.TASKS_READ,
    "follow_events": Scope.TASKS_READ,
}


def opened_by(operation: str) -> tuple[Scope, ...]:
    """Any one of these is enough. None at all: it is open to everybody."""
    scope, also = POLICY[operation], ALSO.get(operation)
    return tuple(each for each in (scope, also) if each is not None)
