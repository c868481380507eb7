"""What was brought to this node for an attempt, by hash."""

from pathlib import Path

from msgspec import Struct

from potluck.model.blob import BlobRef


class Inputs(Struct, frozen=True):
    """Whole files, each checked; they stay as they are until the attempt lets go of them."""

    paths: dict[str, Path] = {}  # by sha256
    fetched_bytes: int = 0  # of them, what was not here already

    def path_of(self, blob: BlobRef) -> Path:
        return self.paths[blob.sha256]
