"""All commands: name, function and summary. A command's module is imported when it is used.

The summary lists a command without importing it: the first paragraph of the function's docstring,
which a test compares.
"""

Row = tuple[str, str, str]  # name, module below potluck.cli and function, summary


# The help panels, in order.
RUN = "Run tasks"
WATCH = "Watch tasks"
RESULTS = "Get results"
POOL = "Browse the pool"
ACCOUNT = "My account"
MACHINES = "My machines"
OWN_POOL = "Run a pool"

# Other names of commands, which the help does not list.
ALIASES = {"stop": "cancel"}

# The commands that take a script, and their defaults from it.
SENDING = ("run", "submit", "map")

COMMANDS: dict[str, tuple[Row, ...]] = {
    RUN: (
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
    WATCH: (
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
    RESULTS: (
        (
            "result",
            "results.result:result",
            "Show how a task ended (on stderr) and its stdout (on stdout).",
        ),
        ("files", "results.files:files", "List the files that a task left."),
        ("cp", "volumes.cp:cp", "Copy files of a task or a volume here, or files into a volume."),
    ),
    POOL: (
        ("gpus", "gpus.gpus:gpus", "Show the devices on offer: model, memory, price, free ones."),
        ("nodes", "gpus.nodes:nodes", "Show the machines in the pool and their devices."),
    ),
    ACCOUNT: (
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
            "deposit",
            "account.deposit:deposit",
            "Deposit tokens in the pool's contract, as credits.",
        ),
        ("claim", "account.claim:claim", "Claim my rewards from the pool's contract."),
        (
            "roles",
            "account.roles:roles",
            "Show or choose my roles: consumer, provider, both or none.",
        ),
    ),
    MACHINES: (
        (
            "provide",
            "provider.provide:provide",
            "Offer this machine's devices to the pool, until Ctrl-C.",
        ),
        ("doctor", "doctor.doctor:doctor", "Check this machine, and show how to fix problems."),
    ),
    OWN_POOL: (
        ("up", "operate.up:up", "Start a server and a provider here, until Ctrl-C."),
        (
            "server",
            "operate.server:server",
            "Run the server, with its own PostgreSQL unless you name one.",
        ),
        (
            "treasury",
            "operate.treasury:treasury",
            "Sign payouts for a server, if its ledger supports them.",
        ),
        (
            "version",
            "operate.version:version",
            "Show the version of Potluck, of Python and of the system.",
        ),
    ),
}
