"""The parts that the file tools are made of. ``tools/file_tools.py`` registers the tools.

A tool each: ``read``, ``writing``, ``patching``, ``searching`` (with ``matches``). ``places`` leads from a path to the
file that is opened; ``text`` is bytes as text and back, ``changing``, ``placing`` and ``unified`` change it; ``kept`` keeps
what is replaced, ``owners`` whose a file is.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any

PAGE_LINES = 2000
"""Lines that one call of read_file shows."""


def late(module: str, name: str) -> Callable[[Any, Any], Awaitable[Any]]:
    """Make an async function that calls the one of a module of this package, which loads with its first call: a session's first
    request to its model is not kept waiting for tools that the model has not called.
    """

    async def call(args: Any, ctx: Any) -> Any:
        return await getattr(importlib.import_module(f"{__name__}.{module}"), name)(args, ctx)

    call.__name__ = name
    return call
