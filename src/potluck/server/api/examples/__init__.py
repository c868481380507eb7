"""What each operation of the API is called, asked and answered, for the document.

One file for each area, in the order in which people meet them: the areas are the tags. The values
are typed, and a test sends each of them through the codec, so an example is never out of date.
"""

from typing import Final

from potluck.server.api.examples import (
    account,
    notify,
    operate,
    own_machines,
    provide,
    queue,
    resources,
    results,
    settle,
    sign_in,
    submit,
)
from potluck.server.api.examples.example import Area, Example

AREAS: Final[tuple[Area, ...]] = (
    sign_in.AREA,
    account.AREA,
    resources.AREA,
    submit.AREA,
    queue.AREA,
    provide.AREA,
    results.AREA,
    settle.AREA,
    own_machines.AREA,
    notify.AREA,
    operate.AREA,
)
EXAMPLES: Final[dict[str, Example]] = {
    name: example for area in AREAS for name, example in area.operations.items()
}
