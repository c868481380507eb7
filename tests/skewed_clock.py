"""A process of ours on a machine whose clock is wrong, by what Python loads first."""

import os
from pathlib import Path

# Methods of a built-in type can only be replaced in the dictionary behind its attributes.
_SKEW = """
import ctypes, datetime, gc, time
SECONDS = {seconds}
right_time, right_time_ns, right_now = time.time, time.time_ns, datetime.datetime.now
time.time = lambda: right_time() + SECONDS
time.time_ns = lambda: right_time_ns() + SECONDS * 10**9
def now(cls, tz=None):
    return right_now(tz) + datetime.timedelta(seconds=SECONDS)
gc.get_referents(vars(datetime.datetime))[0]["now"] = classmethod(now)
ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))
"""


def skewed(directory: Path, seconds: int) -> dict[str, str]:
    """The variables of a process whose clock is ahead by this, or behind if it is negative."""
    directory.mkdir(parents=True)
    (directory / "sitecustomize.py").write_text(_SKEW.format(seconds=seconds))
    path = [str(directory), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, path))}
