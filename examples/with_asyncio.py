"""Calls to the pool from asyncio: they are awaited like anything else, and the loop stays free.

python examples/with_asyncio.py

Three calls are under way at once, then a map is iterated, while a clock ticks beside them. It
prints each answer as it comes, and at the end `the sum of 100 squares is 328350`.
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
