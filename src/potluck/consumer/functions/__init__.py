"""Python functions on other people's machines: `@potluck.task`, `.submit()` and `.map()`.

The function is sent pickled and unpickled in a sandbox; its value comes back as plain data. One
thread submits, in batches; two wait for results. `dispatch.py` owns them, once for each client.
"""
