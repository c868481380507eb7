# /// script
# requires-python = ">=3.11"
# dependencies = ["pyopencl"]
# ///
"""Hello, GPU: which devices this task was given, asked through OpenCL, which every vendor has.

potluck run --gpu 1 examples/hello_gpu.py
potluck run --gpu 1 --memory 24GB --model "RTX 40*" examples/hello_gpu.py
potluck run examples/hello_gpu.py         (where there is no GPU: a processor, if it has OpenCL)

A task sees the devices that it was granted and no others. It prints a line for each, such as

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
