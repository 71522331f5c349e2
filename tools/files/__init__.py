"""The parts of the file tools, which ``tools/file_tools.py`` registers.

One module for each tool: ``read``, ``writing``, ``patching``, ``searching`` (with ``matches``). ``places`` resolves a path to
the file that is opened. ``text`` converts bytes to text and back; ``changing``, ``placing`` and ``unified`` change text.
``kept`` stores replaced contents, ``owners`` keeps a file's owner.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any

PAGE_LINES = 2000
"""Number of lines that one call of read_file shows."""


def late(module: str, name: str) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return an async function that calls the function ``name`` of a module of this package. The first call imports the module.

    This way, the first request to the model does not wait for the import of tools.
    """

    async def call(args: Any, ctx: Any) -> Any:
        return await getattr(importlib.import_module(f"{__name__}.{module}"), name)(args, ctx)

    call.__name__ = name
    return call
