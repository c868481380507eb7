# /// script
# requires-python = ">=3.11"
# dependencies = ["pyopencl"]
# ///
"""Hello, GPU: lists the devices of this task through OpenCL, which every vendor supports.

potluck run --gpu 1 examples/hello_gpu.py
potluck run --gpu "rtx 40*" --vram 24GB examples/hello_gpu.py
potluck run examples/hello_gpu.py         (without a GPU: a processor, if it has OpenCL)

A task sees only the devices that it was granted. It prints a line for each, such as

    GPU NVIDIA GeForce RTX 4090: 23.5 GiB, 128 compute units
"""

import platform

import pyopencl as cl

print("Hello from Python", platform.python_version(), flush=True)
try:
    devices = [device for vendor in cl.get_platforms() for device in vendor.get_devices()]
except cl.LogicError:  # no driver at all
    devices = []

for device in devices:
    kind = "GPU" if device.type & cl.device_type.GPU else "CPU"
    memory = device.global_mem_size / 2**30
    print(f"{kind} {device.name}: {memory:.1f} GiB, {device.max_compute_units} compute units")
if not devices:
    print("This node has no OpenCL driver; its processor greets all the same.")
