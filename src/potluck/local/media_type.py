"""Media types by file name: which files are shown as pictures or tables."""

import mimetypes

PICTURES = {"image/png", "image/jpeg", "image/gif", "image/webp", "image/svg+xml"}
TABLES = {"text/csv", "text/tab-separated-values", "application/vnd.apache.parquet"}
DRAWN = {"text/csv", "text/tab-separated-values"}  # the tables that are plain text
# The system's own list differs from machine to machine.
_KNOWN = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "parquet": "application/vnd.apache.parquet",
    "json": "application/json",
    "txt": "text/plain",
    "log": "text/plain",
    "md": "text/markdown",
    "npy": "application/x-npy",
    "npz": "application/x-npz",
    "pt": "application/x-pytorch",
    "safetensors": "application/x-safetensors",
}


def media_type(path: str) -> str:
    """Guesses from the name alone."""
    suffix = path.rpartition(".")[2].lower() if "." in path else ""
    return _KNOWN.get(suffix) or mimetypes.guess_type(path)[0] or "application/octet-stream"
