# /// script
# requires-python = ">=3.11"
# dependencies = ["humanize>=4"]
# ///
"""A script that brings its own dependencies: the block above is PEP 723, and all there is to it.

potluck run examples/dependencies.py
"""

import datetime

import humanize

print("A terabyte reads", humanize.naturalsize(10**12))
print("A million reads", humanize.intword(10**6))
print("The launch was", humanize.naturaldelta(datetime.timedelta(days=400)), "ago")
