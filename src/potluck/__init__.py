"""Potluck: everyone brings a GPU.

The folders are the flow: `model` and `wire` are the values that everyone shares, `decide` chooses,
`store`, `live` and `blobs` remember, `server`, `provider` and `consumer` act, `cli` is for people.

`potluck.Potluck` is the consumer's client. It is fetched when first named, so that importing this
package costs nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from potluck.consumer import Potluck as Potluck

__version__ = "0.1.0"
__all__ = ["Potluck", "__version__"]


def __getattr__(name: str) -> object:
    if name == "Potluck":
        from potluck.consumer import Potluck

        return Potluck
    raise AttributeError(f"module 'potluck' has no attribute {name!r}")
