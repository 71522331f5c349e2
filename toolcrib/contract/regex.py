"""Regular expressions that are compiled when they are first used.

Compiling a pattern takes a hundred times as long as naming it, and a process uses few of the patterns that it imports. A pattern
at module level is a ``Regex``; tests/house/test_start.py compiles every one, so that a broken one is found all the same.
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
    """A regular expression with the methods of ``re.Pattern``, compiled when the first of them is asked for.

    From then on the methods are the compiled pattern's own. One that can't be compiled raises ``re.error`` at its first use.
    """

    __slots__ = ("flags", "pattern", *_METHODS)

    pattern: AnyStr
    flags: int

    def __init__(self, pattern: AnyStr, flags: int = 0) -> None:
        self.pattern = pattern
        self.flags = flags

    def compiled(self) -> re.Pattern[AnyStr]:
        """Return the pattern itself."""
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
            """Fill the empty slots: Python asks here for a method only while its slot is empty."""
            if name not in _METHODS:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            compiled = self.compiled()
            for method in _METHODS:
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)
