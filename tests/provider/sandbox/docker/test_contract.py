"""What holds for every driver holds for each engine: the same tests as for bubblewrap.

Left out are those that look at how bubblewrap itself makes its walls.
"""

import pytest

from tests.provider.sandbox.test_exit_reasons import *  # noqa: F403
from tests.provider.sandbox.test_opencl import *  # noqa: F403
from tests.provider.sandbox.test_stdin import *  # noqa: F403

pytestmark = pytest.mark.long
