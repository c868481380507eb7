"""Commands below a name, such as `potluck keys add`; rows as in `commands.py`."""

from typing import NamedTuple

from potluck.cli.commands import ACCOUNT, MACHINES, OWN_POOL, RESULTS, Row


class CommandGroup(NamedTuple):
    """A name, and the commands below it."""

    name: str
    summary: str
    panel: str | None
    commands: tuple[Row, ...]
    default: str | None = None  # the command that runs if none is named; None: the help is shown
    parent: str | None = None  # the group that it is in


# Names that commands had, which the help does not list.
EARLIER_NAMES: dict[str, tuple[Row, ...]] = {
    "admin": (("take", "admin.accounts:take", "The earlier name of `potluck admin revoke`."),)
}

GROUPS = (
    CommandGroup(
        "keys",
        "API keys, for CI and scripts.",
        ACCOUNT,
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
        MACHINES,
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
                "Take no new tasks, finish the running ones, then stop; waits until then.",
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
                "Provide whenever this machine runs; your wallet signs now if necessary.",
            ),
            (
                "uninstall",
                "provider.install:uninstall",
                "Remove the service. A running provider continues, unless --now is given.",
            ),
        ),
    ),
    CommandGroup(
        "volume",
        "Named data sets, which tasks mount read-only.",
        RESULTS,
        (
            ("put", "volumes.volume:put", "Put files into a volume, as its newest version."),
            ("ls", "volumes.volume:list_volumes", "List my volumes, and those shared with me."),
            ("show", "volumes.volume:show", "Show the versions or the files of a volume."),
            ("rm", "volumes.volume:remove", "Remove volumes or versions of them."),
            ("share", "volumes.volume:share", "Let other wallets mount and read a volume."),
            ("keep", "volumes.volume:keep", "Limit how many versions are kept, and for how long."),
        ),
        default="ls",
    ),
    CommandGroup(
        "receipts",
        "Receipts of attempts, signed by the node and by the server.",
        ACCOUNT,
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
        ACCOUNT,
        (
            ("list", "account.sessions:list_sessions", "Show where my wallet is signed in."),
            ("end", "account.sessions:end_session", "End a session immediately."),
        ),
        default="list",
    ),
    CommandGroup(
        "rewards",
        "What my machines earned, and how it is paid.",
        MACHINES,
        (
            (
                "show",
                "provider.rewards:show_rewards",
                "Show what my machines contributed and earned, and where the rewards are.",
            ),
            (
                "payout",
                "provider.rewards:choose_payout",
                "Choose whether rewards are paid outside the pool, or stay credits.",
            ),
            ("epochs", "provider.rewards:own_epochs", "List the epochs in which I earned."),
            ("payouts", "provider.rewards:own_payouts", "List what was paid to me."),
            (
                "statement",
                "provider.statements:own_statement",
                "Get my statement of an epoch, signed by the server.",
            ),
            (
                "verify",
                "provider.statements:verify_statement",
                "Verify a statement, without the server.",
            ),
            (
                "signer",
                "provider.statements:show_signer",
                "Show the address that signs the server's statements.",
            ),
        ),
        default="show",
    ),
    CommandGroup(
        "webhooks",
        "Send events to a URL of mine by HTTP.",
        ACCOUNT,
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
        OWN_POOL,
        (
            ("accounts", "admin.accounts:accounts", "Show all accounts of the pool."),
            ("roles", "admin.accounts:set_roles", "Set all roles of an account, including admin."),
            (
                "suspend",
                "admin.accounts:suspend",
                "Suspend an account immediately: its tasks are cancelled, its machines leave.",
            ),
            ("resume", "admin.accounts:resume", "End the suspension of an account."),
            (
                "label",
                "admin.accounts:label",
                "Name an account for admins; its label works in place of its wallet.",
            ),
            ("grant", "admin.accounts:grant", "Grant credits to an account."),
            (
                "revoke",
                "admin.accounts:revoke",
                "Take credits back from an account, at most what it has available.",
            ),
            ("epochs", "admin.epochs:list_epochs", "Show the epochs of the pool."),
            (
                "statement",
                "admin.epochs:pool_statement",
                "Get the statement of all accounts for an epoch, signed by the server.",
            ),
            ("quota", "admin.quota:quota", "Show or change the limits of an account."),
            (
                "tasks",
                "admin.tasks:tasks",
                "List the tasks of all accounts, newest first, without their names and content.",
            ),
            ("cordon", "admin.cordon:cordon", "Stop new work on a node; running work finishes."),
            ("uncordon", "admin.cordon:uncordon", "Allow new work on a node again."),
            (
                "remove-node",
                "admin.cordon:remove_node",
                "Remove a node of any owner that will not return.",
            ),
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
                "Back up the database and the files, even while the server runs.",
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
                "Collect diagnostics in one archive, without secrets.",
            ),
        ),
    ),
    CommandGroup(
        "alerts",
        "Alerts of the pool, silences and destinations.",
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
                "Send no messages about an alert for a while, for one node or for all.",
            ),
            ("unsilence", "admin.alerts:unsilence", "End a silence."),
        ),
        default="list",
        parent="admin",
    ),
    CommandGroup(
        "payouts",
        "Rewards to be paid, and what was paid.",
        None,
        (
            (
                "list",
                "admin.payouts:list_payouts",
                "Show the accounts to be paid, and the newest payouts.",
            ),
            (
                "export",
                "admin.payouts:export_payouts",
                "Write a CSV file of what is to be paid, for `mark`.",
            ),
            (
                "mark",
                "admin.payouts:mark_payouts",
                "Record what was paid outside the pool, each row once.",
            ),
            (
                "resume",
                "admin.payouts:resume_payouts",
                "Resume deposits and payouts of the contract after they have stopped.",
            ),
        ),
        default="list",
        parent="admin",
    ),
    CommandGroup(
        "simulate",
        "Simulate the scheduler on traces.",
        OWN_POOL,
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
