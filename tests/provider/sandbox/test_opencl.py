"""A processor that is offered through OpenCL is reached through it from inside."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from potluck.model.task import MIB
from potluck.provider.expose.expose import expose
from potluck.provider.sandbox.driver import Mount
from tests.provider.sandbox.conftest import Host

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
# A kernel is compiled and linked inside, and its products are compared with exact ones.
COMPUTE = """
import sys
sys.path.append("/packages")
import numpy, pyopencl
(processor,) = pyopencl.get_platforms()[0].get_devices()
context = pyopencl.Context([processor])
queue = pyopencl.CommandQueue(context)
numbers = numpy.arange(100_000, dtype=numpy.int64)
flags = pyopencl.mem_flags
kept = pyopencl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=numbers)
kernel = "__kernel void square(__global long *x) { x[get_global_id(0)] *= x[get_global_id(0)]; }"
pyopencl.Program(context, kernel).build().square(queue, numbers.shape, None, kept)
pyopencl.enqueue_copy(queue, numbers, kept)
print(int(numbers.sum()))
"""


@pytest.fixture(autouse=True)
def pocl() -> None:
    if not list(Path("/etc/OpenCL/vendors").glob("pocl*.icd")):
        pytest.skip("PoCL is missing; scripts/test-needs.sh installs it")


def test_a_kernel_computes_inside(host: Host) -> None:
    module_spec = find_spec("pyopencl")
    assert module_spec is not None and module_spec.origin is not None
    packages = Mount(Path(module_spec.origin).parents[1], "/packages")
    driver_mounts = expose((), {}).mounts
    result = host.python(COMPUTE, memory_bytes=1024 * MIB, mounts=(packages, *driver_mounts))
    assert result.stdout == f"{sum(n * n for n in range(100_000))}\n".encode(), result.stderr


def test_opencl_finds_its_driver_inside(host: Host) -> None:
    result = host.python(LOAD, memory_bytes=512 * MIB)
    assert result.stdout == b"0 1\n", result.stderr
