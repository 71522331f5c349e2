"""Dataclasses that get their methods when they are first used.

``dataclasses.dataclass`` writes and compiles up to eight methods for every class. That is most of what importing a module costs,
and a process uses few of the classes that it imports. Here a class has its slots at once, and its methods, which the standard
library makes, with its first instance. docs/adr/0012-made-at-first-use.md has the figures.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_making = threading.RLock()
_FIELDS = "__dataclass_fields__"
_NO_FIELDS = frozenset({"ClassVar", "InitVar", "KW_ONLY"})

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, slots, frozen=False, eq=True, kw_only=False):
        """Make a class a dataclass, as ``dataclasses.dataclass`` with these options does. It always has slots."""
        if not slots:
            raise TypeError("a class that is completed later has slots: say slots=True, or take dataclasses.dataclass")
        return lambda plain: _with_slots(plain, {"frozen": frozen, "eq": eq, "kw_only": kw_only})


def _with_slots(plain: Any, options: dict[str, bool]) -> Any:
    """Return a copy of a class with slots for its fields, which is completed when its fields or one of its methods are used."""
    names = [name for name, kind in plain.__annotations__.items() if _is_field(kind)]
    members = {name: value for name, value in vars(plain).items() if name not in ("__dict__", "__weakref__", *names)}
    inherited = {slot for base in plain.__mro__[1:] for slot in getattr(base, "__slots__", ())}
    members["__slots__"] = tuple(name for name in names if name not in inherited)
    made = type(plain)(plain.__name__, plain.__bases__, members)
    made.__qualname__ = plain.__qualname__
    fields = _Fields(made, plain, options)
    setattr(made, _FIELDS, fields)
    # Instances come from __init__. One that was pickled in another process comes to any of the others first.
    compared, kept = ["__eq__", "__hash__"] if options["eq"] else [], ["__setstate__"] if options["frozen"] else []
    for name in ("__init__", "__repr__", *compared, *kept):
        if name not in members:
            setattr(made, name, _stub(made, name, fields.complete))
    return made


def _is_field(kind: object) -> bool:
    """Tell the annotation of a field from others, such as ``ClassVar[int]``."""
    return str(kind).partition("[")[0].rpartition(".")[2] not in _NO_FIELDS


def _stub(made: Any, name: str, complete: Callable[[], object]) -> Callable[..., Any]:
    def method(self: object, *args: Any, **kwargs: Any) -> Any:
        complete()
        return getattr(made, name)(self, *args, **kwargs)

    return method


class _Fields:
    """Stands in for the fields of a class, for which ``dataclasses.fields`` and ``replace`` look, until it is completed."""

    def __init__(self, made: Any, plain: Any, options: dict[str, bool]) -> None:
        self._made = made
        self._plain = plain
        self._options = options

    def __get__(self, instance: object, owner: object) -> Any:
        return self.complete()

    def complete(self) -> Any:
        """Give the class all that the standard library makes for it, unless another thread did. Return its fields."""
        made = self._made
        with _making:
            if vars(made)[_FIELDS] is self:
                done = dataclasses.dataclass(slots=True, **self._options)(self._plain)
                new = {name: value for name, value in vars(done).items() if vars(made).get(name) is not value}
                # In the end those by which another thread sees that it has not to wait.
                for name in sorted(new, key=("__init__", _FIELDS).__contains__):
                    if name not in done.__slots__ and name != "__slots__":
                        setattr(made, name, new[name])
            return vars(made)[_FIELDS]
