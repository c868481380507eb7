"""Greets, and says where it ran."""

import argparse
import os
import platform

parser = argparse.ArgumentParser()
parser.add_argument("--name", default="world")
guest = parser.parse_args().name

print(f"Hello, {guest}!")
print(f"This is Python {platform.python_version()} on {platform.system()} {platform.machine()},")
print(f"with {len(os.sched_getaffinity(0))} cores in sight.")
