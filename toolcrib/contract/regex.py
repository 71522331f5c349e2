"""Regular expressions that are compiled at first use.

Compiling a pattern takes a hundred times as long as defining it, and a process uses few of the patterns that it
imports. Every pattern at module level is a ``Regex``; tests/house/test_start.py compiles each of them, so that a
broken one is found early.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, AnyStr, Generic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    _Replace: TypeAlias = Callable[[re.Match[AnyStr]], AnyStr]

_METHODS = ("findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn")


class Regex(Generic[AnyStr]):
    """A regular expression with the methods of ``re.Pattern``, compiled at the first use of one of them.

    From then on the methods are the compiled pattern's own. A pattern that can't be compiled raises ``re.error`` at its first
    use.
    """

    __slots__ = ("flags", "pattern", *_METHODS)

    pattern: AnyStr
    flags: int

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    def compiled(self) -> re.Pattern[AnyStr]:
        """Return the compiled pattern."""
        return re.compile(self.pattern, self.flags)

    def __repr__(self) -> str:
        return f"Regex({self.pattern!r}, {self.flags!r})"

    if TYPE_CHECKING:

        def findall(self, string: AnyStr, pos: int = 0, endpos: int = sys.maxsize) -> list[Any]: ...
        def finditer(self, string: AnyStr, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[re.Match[AnyStr]]: ...
        def fullmatch(self, string: AnyStr, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[AnyStr] | None: ...
        def match(self, string: AnyStr, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[AnyStr] | None: ...
        def search(self, string: AnyStr, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[AnyStr] | None: ...
        def split(self, string: AnyStr, maxsplit: int = 0) -> list[AnyStr | Any]: ...
        def sub(self, repl: AnyStr | _Replace[AnyStr], string: AnyStr, count: int = 0) -> AnyStr: ...
        def subn(
            self, repl: AnyStr | Callable[[re.Match[AnyStr]], AnyStr], string: AnyStr, count: int = 0
        ) -> tuple[AnyStr, int]: ...
    else:

        def __getattr__(self, name):
            """Fill the empty slots: Python calls this for a method only while its slot is empty."""
            if name not in _METHODS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            compiled = self.compiled()
            for method in _METHODS:
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)
