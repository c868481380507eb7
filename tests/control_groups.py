"""Control groups of a provider that was killed for good: its next life would have removed them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from potluck.provider.sandbox import cgroup
from potluck.provider.sandbox.bubblewrap.bwrap import sandbox_name
from potluck.provider.sandbox.hierarchy import find_hierarchy


def remove_groups(state_directory: Path, node_name: str) -> None:
    """Those of this node alone, with what is in them. Also for tests that run in an event loop."""
    hierarchy = find_hierarchy(f"{sandbox_name(state_directory, node_name)}-")
    if hierarchy is not None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, cgroup.remove_groups(hierarchy)).result()
