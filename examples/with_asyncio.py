"""Calls to the pool from asyncio: they are awaited like anything else, and the loop stays free.

python examples/with_asyncio.py

Three calls are under way at once while a clock ticks beside them. It prints each answer as it
comes, and at the end `all there: [120, 5040, 3628800]`.
"""

import asyncio

import potluck


@potluck.task(ram="64MiB")
def factorial(number: int) -> int:
    import math

    return math.factorial(number)


async def ask(number: int) -> int:
    """A future of the pool is one of concurrent.futures, so asyncio can wait for it."""
    answer = await asyncio.wrap_future(factorial.submit(number))
    print(f"{number}! is {answer}")
    return answer


async def tick() -> None:
    while True:
        await asyncio.sleep(1)
        print("… the loop is free")


async def main() -> None:
    clock = asyncio.create_task(tick())
    answers = await asyncio.gather(ask(5), ask(7), ask(10))
    clock.cancel()
    print("all there:", answers)


if __name__ == "__main__":
    asyncio.run(main())
