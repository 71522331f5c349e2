"""Run coroutines beside each other until one of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_ended(*works: Coroutine[Any, Any, object]) -> list[bool]:
    """Run coroutines until one ends, and cancel the others. Return for each whether it had ended before. Raises the error of a
    coroutine that failed.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ended = [task.done() for task in tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in tasks:
        if not task.cancelled():
            task.result()
    return ended
