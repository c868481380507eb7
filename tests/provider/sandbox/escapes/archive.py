"""The probes as one file that an interpreter without anything else can run."""

import io
import zipfile
from pathlib import Path

from tests.provider.sandbox.escapes import inside

_PACKAGE = "tests.provider.sandbox.escapes.inside"
_START = f"import sys\nfrom {_PACKAGE}.__main__ import main\nmain(*sys.argv[1:])\n"


def packed() -> bytes:
    place = Path(_PACKAGE.replace(".", "/"))
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("__main__.py", _START)
        for parent in list(place.parents)[:-1]:
            archive.writestr(str(parent / "__init__.py"), "")
        for module in Path(inside.__path__[0]).glob("*.py"):
            archive.write(module, place / module.name)
    return target.getvalue()
