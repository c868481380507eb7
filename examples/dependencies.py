# /// script
# requires-python = ">=3.11"
# dependencies = ["rich>=13"]
# ///
"""A script that brings its own dependencies: the block above is PEP 723, and all there is to it.

potluck run examples/dependencies.py

The node installs them, in a sandbox of their own, and keeps them for your next run. It prints a
table, drawn by a package that the node did not have before. The same file runs here, too:
`uv run examples/dependencies.py`.
"""

import math

from rich.console import Console
from rich.table import Table

table = Table(title="Factorials")
table.add_column("n", justify="right")
table.add_column("n!", justify="right")
table.add_column("digits", justify="right")
for number in (5, 10, 20, 25):
    product = math.factorial(number)
    table.add_row(str(number), f"{product:,}", str(len(str(product))))

Console(width=60).print(table)
