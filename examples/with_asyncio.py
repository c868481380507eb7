"""Calls to the pool from asyncio: they can be awaited, and do not block the loop.

python examples/with_asyncio.py

Three calls run concurrently, then a map is iterated, while a clock ticks in parallel. It prints
each result as it arrives, and at the end `the sum of 100 squares is 328350`.
"""

import asyncio

import potluck


@potluck.task(ram="64MiB")
def factorial(number: int) -> int:
    import math

    return math.factorial(number)


@potluck.task(ram="64MiB")
def square(number: int) -> int:
    return number * number


async def ask(number: int) -> None:
    print(f"{number}! is {await factorial.submit(number)}")


async def tick() -> None:
    while True:
        await asyncio.sleep(1)
        print("… the loop is free")


async def main() -> None:
    clock = asyncio.create_task(tick())
    await asyncio.gather(ask(5), ask(7), ask(10))
    total = 0
    async for each in square.map(range(100)):
        total += each
    clock.cancel()
    print("the sum of 100 squares is", total)


if __name__ == "__main__":
    asyncio.run(main())
