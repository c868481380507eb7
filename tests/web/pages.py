"""Every page of the dashboard, as its router has it."""

import re
from pathlib import Path

ROUTER = Path(__file__).parents[2] / "web" / "src" / "router.tsx"


def pages(task_id: str, node_id: str) -> dict[str, str]:
    """A name for each page, and its address; the task has a log, files and attempts."""
    found = {path.strip("/").replace("/", "-") or "home": path for path in paths()}
    found.pop("sign-in")
    found["task"] = f"/tasks/{task_id}"
    for tab in ("files", "attempts", "details"):
        found[f"task-{tab}"] = f"/tasks/{task_id}?tab={tab}"
    found["machine"] = f"/machines/{node_id}"
    return found


def paths() -> list[str]:
    """Without those that name something."""
    named = re.findall(r'at\("([^"]+)"\)', ROUTER.read_text())
    return [path for path in named if "$" not in path]
