"""A processor that is offered through OpenCL is reached through it from inside."""

from pathlib import Path

import pytest

from potluck.model.task import MIB
from tests.sandbox.conftest import Host

# As every loader of OpenCL does: read where the drivers are, and load them.
LOAD = """
import ctypes, glob
for entry in glob.glob("/etc/OpenCL/vendors/pocl*.icd"):
    driver = ctypes.CDLL(open(entry).read().strip())
    driver.clGetExtensionFunctionAddress.restype = ctypes.c_void_p
    address = driver.clGetExtensionFunctionAddress(b"clIcdGetPlatformIDsKHR")
    count = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p)(address)
    platforms = ctypes.c_uint()
    print(count(0, None, ctypes.addressof(platforms)), platforms.value)
"""


def test_opencl_finds_its_driver_inside(host: Host) -> None:
    if not list(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        pytest.skip("PoCL is missing; scripts/test-needs.sh installs it")
    answer = host.python(LOAD, memory_bytes=512 * MIB)
    assert answer.stdout == b"0 1\n", answer.stderr
