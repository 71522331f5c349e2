"""The tables of this package: each module exports its rows under the table's name, and is listed here.

A new row belongs in the module of its topic, and a new module in one of these lists. A table loads at its first use.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

from tools.judge.meaning.call import BuiltinCall
from tools.judge.meaning.interpreters import InterpreterOptions
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Value
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import Inner, Wrapper

Row = TypeVar("Row")
_Values: TypeAlias = Sequence[Value]


class Table(Generic[Row]):
    """Rows by the name of a command."""

    def __init__(self, name: str, *modules: str) -> None:
        self.name = name
        self.modules = modules

    @functools.cached_property
    def rows(self) -> Mapping[str, Row]:
        found: dict[str, Row] = {}
        for module in self.modules:
            given = getattr(importlib.import_module(f"tools.judge.meaning.{module}"), self.name)
            if twice := found.keys() & given.keys():
                raise ValueError(f"{module}.{self.name} has rows that another module has too: {', '.join(sorted(twice))}")
            found |= given
        return found


BUILTINS = Table[Callable[[BuiltinCall], list[State]]]("BUILTINS", "builtins", "declare", "file_reads")
"""The shell's own commands."""
WRAPPERS = Table[tuple[Wrapper, ...]]("WRAPPERS", "wrappers")
"""Programs that run another one, if a row describes it completely; ``wrappers.inner`` reads it."""
SPECIALS = Table[Callable[[_Values, Value | None], list[Inner]]](
    "SPECIALS", "specials", "feeding", "containers", "multiplexers", "logins", "launching"
)
"""Programs that run others. A row is a function of arguments and standard input that returns the inner commands. They are used
in addition to WRAPPERS.
"""
RECIPES = Table[Callable[[Walker, State, _Values], list[Inner]]](
    "RECIPES", "recipes", "gitaliases", "debuggers", "images", "configured", "launching"
)
"""Programs that run or send the content of the session's own files, or run commands from git's settings."""
INTERPRETERS = Table[InterpreterOptions]("INTERPRETERS", "interpreters")
"""Interpreters of other languages, whose code tools/judge/languages reads."""
FILTERS = Table[Callable[[Sequence[str], Sequence[str], Value], Value | None]]("FILTERS", "filters")
"""Programs whose output follows from their input: ``(words, operands, input)`` to output, None if it is unknown."""
OUTPUTS = Table[Callable[[Walker, State, _Values], Value]]("OUTPUTS", "output")
"""Programs whose output depends on more than their input."""
EFFECTS = Table[Callable[[Walker, State, _Values], None]]("EFFECTS", "effects", "gitaliases", "packing", "panes")
"""Programs that write something to files which a later command may run or send."""


CHANGES = Table[Callable[[Walker, State, _Values], None]]("CHANGES", "changes", "images")
"""Programs that change files in unknown ways. These files count as unknown afterwards."""


@functools.lru_cache(maxsize=1_024)
def interpreter(name: str) -> InterpreterOptions | None:
    """Return the row of an interpreter, for any version in its name."""
    found = INTERPRETERS.rows.get(name)
    return found if found is not None else INTERPRETERS.rows.get(name.rstrip("0123456789.").rstrip("-"))
