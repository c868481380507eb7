"""The smallest task: prints a greeting and where it ran.

potluck run examples/hello.py
potluck run examples/hello.py Ada Grace
"""

import platform
import sys
import time

for guest in sys.argv[1:] or ["world"]:
    print(f"Hello, {guest}!", flush=True)
    time.sleep(0.3)

print(f"This is Python {platform.python_version()} on {platform.system()} {platform.machine()}.")
