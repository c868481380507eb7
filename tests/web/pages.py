"""Every page of the dashboard, as its router has it."""

import re
from pathlib import Path

ROUTER = Path(__file__).parents[2] / "web" / "src" / "router.tsx"


def pages(task_id: str, node_id: str) -> dict[str, str]:
    """A name for each page, and its address; the task has a log, files and attempts."""
    page_paths = {path.strip("/").replace("/", "-") or "home": path for path in paths()}
    page_paths.pop("sign-in")
    page_paths["task"] = f"/tasks/{task_id}"
    for tab in ("files", "attempts", "details"):
        page_paths[f"task-{tab}"] = f"/tasks/{task_id}?tab={tab}"
    page_paths["machine"] = f"/machines/{node_id}"
    return page_paths


def paths() -> list[str]:
    """Without those that name something."""
    route_paths = re.findall(r'at\("([^"]+)"\)', ROUTER.read_text())
    return [path for path in route_paths if "$" not in path]
