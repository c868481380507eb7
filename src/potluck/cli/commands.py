"""All commands: name, function and summary. A command's module is imported when it is used.

The summary lists a command without importing it: the first paragraph of the function's docstring,
which a test compares.
"""

from typing import NamedTuple

Row = tuple[str, str, str]  # name, module below potluck.cli and function, summary


class CommandGroup(NamedTuple):
    """Commands below a name, such as `potluck keys add`."""

    name: str
    summary: str
    panel: str | None
    commands: tuple[Row, ...]
    default: str | None = None  # the command that runs if none is named; None: the help is shown
    parent: str | None = None  # the group that it is in


# The help panels, in order.
_RUN = "Run tasks"
_WATCH = "Watch tasks"
_RESULTS = "Get results"
_POOL = "Browse the pool"
_ACCOUNT = "My account"
_MACHINES = "My machines"
_OWN_POOL = "Run a pool"

# Other names of commands, which the help does not list.
ALIASES = {"stop": "cancel"}

# The commands that take a script, and their defaults from it.
SENDING = ("run", "submit", "map")

COMMANDS: dict[str, tuple[Row, ...]] = {
    _RUN: (
        ("run", "tasks.run:run", "Run a script on a device of the pool, as if it ran here."),
        (
            "submit",
            "tasks.submit:submit",
            "Submit a task and print its id; it runs in the background.",
        ),
        ("map", "tasks.map:map_items", "Run a script once for each item of a file or a pattern."),
        ("retry", "tasks.retry:retry", "Submit a finished task again, as a new task."),
        (
            "templates",
            "tasks.templates:templates",
            "List the templates for `potluck run --template NAME`.",
        ),
    ),
    _WATCH: (
        ("status", "tasks.status:task_status", "Show the state of a task, and what to do next."),
        ("ps", "tasks.ps:ps", "List my tasks, newest first."),
        ("top", "top.top:top", "Watch my tasks and the pool, full-screen."),
        (
            "logs",
            "results.logs:logs",
            "Show a task's output: its stdout on stdout, its stderr on stderr.",
        ),
        (
            "explain",
            "tasks.explain:explain",
            "Show why a task waits, what would help, and when it may start.",
        ),
        ("attempts", "tasks.attempts:attempts", "List the attempts of a task, newest first."),
        (
            "events",
            "tasks.events:events",
            "Show the events of my tasks and machines, oldest first.",
        ),
        ("cancel", "tasks.cancel:cancel", "Cancel a task that waits or runs."),
    ),
    _RESULTS: (
        (
            "result",
            "results.result:result",
            "Show how a task ended (on stderr) and its stdout (on stdout).",
        ),
        ("files", "results.files:files", "List the files that a task has left."),
    ),
    _POOL: (
        ("gpus", "gpus.gpus:gpus", "Show the devices on offer: model, memory, price, free ones."),
        ("nodes", "gpus.nodes:nodes", "Show the machines in the pool and their devices."),
    ),
    _ACCOUNT: (
        ("login", "account.login:login", "Sign in with your wallet, or make one first."),
        (
            "logout",
            "account.logout:logout",
            "Sign out: end the session, and delete its tokens here.",
        ),
        ("whoami", "account.whoami:whoami", "Show my wallet, roles, credits and server."),
        (
            "balance",
            "account.balance:balance",
            "Show my credits, and the amounts spent and earned.",
        ),
        (
            "roles",
            "account.roles:roles",
            "Show or choose my roles: consumer, provider, both or none.",
        ),
    ),
    _MACHINES: (
        (
            "provide",
            "provider.provide:provide",
            "Offer this machine's devices to the pool, until Ctrl-C.",
        ),
        ("doctor", "doctor.doctor:doctor", "Check this machine, and show how to fix problems."),
    ),
    _OWN_POOL: (
        ("up", "operate.up:up", "Start a server and a provider here, until Ctrl-C."),
        (
            "server",
            "operate.server:server",
            "Run the server, with its own PostgreSQL unless you name one.",
        ),
        (
            "version",
            "operate.version:version",
            "Show the version of Potluck, of Python and of the system.",
        ),
    ),
}

GROUPS = (
    CommandGroup(
        "keys",
        "API keys, for CI and scripts.",
        _ACCOUNT,
        (
            ("list", "account.keys:list_keys", "Show my keys, without their secrets."),
            ("add", "account.keys:add_key", "Make a key and show its secret, once."),
            ("revoke", "account.keys:revoke_key", "Revoke a key, or all keys, immediately."),
        ),
        default="list",
    ),
    CommandGroup(
        "provider",
        "My machines: their offers, work and earnings.",
        _MACHINES,
        (
            (
                "status",
                "provider.status:status",
                "Show devices, whether they take work and why not, and running tasks.",
            ),
            (
                "set",
                "provider.terms:set_terms",
                "Set the terms on which devices may be used: price, hours, limits and more.",
            ),
            ("pause", "provider.pause:pause", "Take no new tasks; running tasks finish."),
            ("resume", "provider.pause:resume", "Take work again."),
            (
                "reclaim",
                "provider.pause:reclaim",
                "Get devices back now: their tasks are stopped, and run elsewhere.",
            ),
            (
                "drain",
                "provider.drain:drain",
                "Finish running tasks, take no new ones, and stop; waits for that.",
            ),
            (
                "leave",
                "provider.leave:leave",
                "Leave the pool permanently: finish tasks, unbind devices, delete the key.",
            ),
            (
                "explain",
                "provider.explain:explain_node",
                "Explain why this machine gets no work, and what would help.",
            ),
            (
                "earnings",
                "provider.earnings:earnings",
                "Show the credits my machines earned, by day and device.",
            ),
            (
                "suggest-price",
                "provider.suggest_price:suggest_price",
                "Show what devices similar to mine earned last week.",
            ),
            (
                "keys",
                "provider.keys:list_node_keys",
                "Show the node keys that my wallet has authorised.",
            ),
            (
                "revoke",
                "provider.keys:revoke_node_key",
                "Revoke a machine's key immediately; its provider stops.",
            ),
            (
                "install",
                "provider.install:install",
                "Provide whenever this machine runs; the wallet signs now, if it has to.",
            ),
            (
                "uninstall",
                "provider.install:uninstall",
                "Remove the service. A running provider continues, unless --now is given.",
            ),
        ),
    ),
    CommandGroup(
        "receipts",
        "Receipts of attempts, signed by the node and by the server.",
        _ACCOUNT,
        (
            ("list", "receipts.list:list_receipts", "List attempts and their receipts."),
            ("export", "receipts.export:export_receipts", "Export receipts as JSON lines."),
            ("verify", "receipts.verify:verify_receipts", "Check exported receipts offline."),
        ),
        default="list",
    ),
    CommandGroup(
        "sessions",
        "Where my wallet is signed in.",
        _ACCOUNT,
        (
            ("list", "account.sessions:list_sessions", "Show where my wallet is signed in."),
            ("end", "account.sessions:end_session", "End a session immediately."),
        ),
        default="list",
    ),
    CommandGroup(
        "webhooks",
        "Send events to a URL of mine by HTTP.",
        _ACCOUNT,
        (
            ("list", "webhooks.list:list_webhooks", "Show my webhooks and their state."),
            (
                "add",
                "webhooks.secrets:add_webhook",
                "Send events to an address, and show the secret that signs them, once.",
            ),
            ("show", "webhooks.list:show_webhook", "Show one webhook."),
            (
                "change",
                "webhooks.change:change_webhook",
                "Change the address, the name or the kinds of events.",
            ),
            (
                "test",
                "webhooks.commands:test_webhook",
                "Send a test event now and show the response.",
            ),
            (
                "rotate",
                "webhooks.secrets:rotate_webhook",
                "Make a new secret and show it; the old one remains valid for a day.",
            ),
            (
                "pause",
                "webhooks.commands:pause_webhook",
                "Stop sending until it is resumed; events wait meanwhile.",
            ),
            (
                "resume",
                "webhooks.commands:resume_webhook",
                "Send events again, starting with those that wait.",
            ),
            ("remove", "webhooks.commands:remove_webhook", "Delete a webhook."),
            (
                "deliveries",
                "webhooks.deliveries:list_deliveries",
                "Show sent and waiting events, newest first, with their results.",
            ),
            (
                "redeliver",
                "webhooks.deliveries:redeliver",
                "Send an event again, with the same event id.",
            ),
        ),
        default="list",
    ),
    CommandGroup(
        "admin",
        "Commands for admins.",
        _OWN_POOL,
        (
            ("accounts", "admin.accounts:accounts", "Show all accounts of the pool."),
            ("roles", "admin.accounts:set_roles", "Set all roles of an account, including admin."),
            (
                "suspend",
                "admin.accounts:suspend",
                "Suspend an account from its next request on: tasks are cancelled, machines leave.",
            ),
            ("resume", "admin.accounts:resume", "End the suspension of an account."),
            (
                "label",
                "admin.accounts:label",
                "Name an account for admins; its label works in place of its wallet.",
            ),
            ("grant", "admin.accounts:grant", "Grant credits to an account."),
            (
                "take",
                "admin.accounts:take",
                "Take credits back from an account, at most what it has available.",
            ),
            ("quota", "admin.quota:quota", "Show or change the limits of an account."),
            (
                "tasks",
                "admin.tasks:tasks",
                "List the tasks of all accounts, newest first, without their names and content.",
            ),
            ("cordon", "admin.cordon:cordon", "Stop new work on a node; running work finishes."),
            ("uncordon", "admin.cordon:uncordon", "Allow new work on a node again."),
            ("invite", "admin.invites:invite", "Make an invite and show its code, once."),
            ("invites", "admin.invites:invites", "Show usable invites, or revoke one."),
            (
                "audit",
                "admin.audit:audit",
                "Show the audit log, newest first, or verify that it was not changed.",
            ),
            (
                "errors",
                "admin.errors:errors",
                "Show the server's errors by kind and place: how often, and when last.",
            ),
            (
                "rotate-key",
                "admin.rotate_key:rotate_key",
                "Change the encryption key of sensitive data, without downtime.",
            ),
            (
                "status",
                "admin.status:pool_status",
                "Show the pool on one screen: parts, queue, nodes, ends, sizes, backup, ledger.",
            ),
            (
                "backup",
                "admin.backup:backup",
                "Back up the database and the files, also while the server runs.",
            ),
            (
                "restore",
                "admin.restore:restore",
                "Restore a backup into an empty database and data directory.",
            ),
            (
                "migrate",
                "admin.migrate:migrate_database",
                "Bring the database to the schema of this version, or show what that would do.",
            ),
            (
                "support-bundle",
                "admin.support_bundle:support_bundle",
                "Collect what helps to find a fault into one archive, without secrets.",
            ),
        ),
    ),
    CommandGroup(
        "alerts",
        "What is wrong with the pool, and who is told.",
        None,
        (
            ("list", "admin.alerts:list_alerts", "Show firing and recent alerts, and silences."),
            (
                "test",
                "admin.alerts:test_alerts",
                "Send a test message to each destination, and show which arrived.",
            ),
            (
                "silence",
                "admin.alerts:silence",
                "Send no messages about an alert for a while, of one node or of all.",
            ),
            ("unsilence", "admin.alerts:unsilence", "End a silence."),
        ),
        default="list",
        parent="admin",
    ),
    CommandGroup(
        "simulate",
        "Simulate the scheduler on traces.",
        _OWN_POOL,
        (
            (
                "completion",
                "simulate.completion:completion",
                "Replay a trace through the scheduler, and show completion and waiting times.",
            ),
            (
                "placement",
                "simulate.placement:placement",
                "Fill the nodes of a trace with a list of tasks, and show the allocated share.",
            ),
        ),
    ),
)
