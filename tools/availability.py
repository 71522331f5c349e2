"""Ready-made check_fns: whether a tool can work here, and if not, what the user can do about it.

Equal arguments return the same function, so that the registry runs a shared check once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Literal, TypeAlias

from toolcrib.contract.types import Unavailable

__all__ = ["Check", "needs_binary", "needs_env", "needs_module"]

Check: TypeAlias = Callable[[], "Literal[True] | Unavailable"]


@cache
def needs_env(*names: str, hint: str = "") -> Check:
    """Return a check that all these environment variables are set and not empty."""

    def check() -> Literal[True] | Unavailable:
        missing = [name for name in names if not os.environ.get(name)]
        return True if not missing else Unavailable(_worded(f"set {' and '.join(missing)}", hint))

    return check


@cache
def needs_binary(*names: str, hint: str = "") -> Check:
    """Return a check that PATH has one of these programs."""
    found = ("", "")

    def check() -> Literal[True] | Unavailable:
        nonlocal found
        path = os.environ.get("PATH", "")
        if found[0] == path and os.access(found[1], os.X_OK):  # one file is checked instead of each folder of PATH
            return True
        from shutil import which

        program = next(filter(None, map(which, names)), None)
        if program is not None:
            found = (path, program)
            return True
        return Unavailable(_worded(f"{' or '.join(names)} not found on PATH", hint or f"install {names[0]}"))

    return check


@cache
def needs_module(name: str, *, extra: str = "") -> Check:
    """Return a check that this Python module is installed; ``extra`` is the extra of toolcrib that installs it."""

    def check() -> Literal[True] | Unavailable:
        from importlib.util import find_spec

        try:
            found = find_spec(name) is not None
        except (ImportError, ValueError):  # its parent package is missing or broken
            found = False
        if found:
            return True
        target = f"toolcrib[{extra}]" if extra else name.partition(".")[0]
        return Unavailable(f"Python module {name} not found: pip install '{target}'")

    return check


def _worded(reason: str, hint: str) -> str:
    return f"{reason}: {hint}" if hint else reason
