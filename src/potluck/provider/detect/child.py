"""Asks another process. A vendor's library that hangs or crashes takes only that one down."""

import asyncio

import structlog

log = structlog.get_logger()


async def output_of(command: tuple[str, ...], timeout_seconds: float) -> str:
    """What it printed; empty if it failed, crashed or took too long, which is logged."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError as error:
        log.warning("detection could not start", command=command[0], error=str(error))
        return ""
    try:
        async with asyncio.timeout(timeout_seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        log.warning("detection took too long", command=command, seconds=timeout_seconds)
        return ""
    finally:
        await _end(process)
    if process.returncode != 0:
        log.warning("detection failed", command=command, exit_status=process.returncode)
        return ""
    return output.decode("utf-8", "replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await process.wait()
