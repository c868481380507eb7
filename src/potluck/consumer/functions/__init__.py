"""Python functions on other people's machines: `@potluck.task`, `.submit()` and `.map()`.

The function goes out pickled and is unpickled in a sandbox; what it returns comes back as plain
data. One thread sends what was submitted, in lists; two wait for results. `dispatch.py` holds them
together, for each client once.
"""
