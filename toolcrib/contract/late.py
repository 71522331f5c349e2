"""Names of a module that are imported from other modules at first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def late(here: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Return a ``__getattr__`` for the module ``here``: ``places`` maps each name to its module."""

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {here!r} has no attribute {name!r}")
        found: object = getattr(import_module(places[name]), name)
        setattr(sys.modules[here], name, found)
        return found

    return find
