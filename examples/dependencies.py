# /// script
# requires-python = ">=3.11"
# dependencies = ["rich>=13"]
# ///
"""A script with dependencies, declared in the PEP 723 block above.

potluck run examples/dependencies.py

The node installs them in a separate sandbox, and keeps them for your next run. The script prints a
table, drawn by a package that the node did not have before. The same file also runs locally:
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
