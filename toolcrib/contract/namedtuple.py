"""NamedTuples that are cheap to define.

``typing.NamedTuple`` compiles every annotation and a ``__new__``: a fifth of a millisecond for each imported class. Here a class
gets its own ``__new__`` after several instances, as with ``toolcrib.contract.dataclass``.
docs/adr/0013-made-at-first-use.md has the figures, and tests/toolcrib/contract/test_namedtuple.py compares with the standard
library.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

BY_HAND = 5
"""Number of instances that are made before the class gets a compiled ``__new__``."""


def _defined(name: str, body: dict[str, Any]) -> Any:
    """Return the tuple's class for the body of a class statement."""
    fields = tuple(body.get("__annotations__", ()))
    defaults = {field: body.pop(field) for field in fields if field in body}
    if tuple(defaults) != fields[len(fields) - len(defaults) :]:
        raise TypeError(f"{name}: a field without a default comes after one with a default")
    late = _LateNew(fields, defaults)
    members = {**_METHODS, **dict(zip(fields, _getters(len(fields)), strict=True))}
    members |= {
        "__new__": late.first(),
        "_fields": fields,
        "_field_defaults": defaults,
        "__match_args__": fields,
        "__slots__": (),
    }
    members["__doc__"] = f"{name}({', '.join(fields)})"
    late.made = type(name, (tuple,), {**members, **body})
    return late.made


class _LateNew:
    """The ``__new__`` of a class: interpreted for its first instances, then compiled."""

    made: Any

    def __init__(self, fields: tuple[str, ...], defaults: Mapping[str, Any]) -> None:
        self._fields = fields
        self._defaults = defaults
        self._made_by_hand = 0

    def first(self) -> Any:
        """Return a ``__new__`` that makes the first instances and then replaces itself with a compiled one."""

        def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
            self._made_by_hand += 1
            values = None if self._made_by_hand > BY_HAND else self._values(args, kwargs)
            return self._compiled()(cls, *args, **kwargs) if values is None else tuple.__new__(cls, values)

        return new

    def _values(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterable[Any] | None:
        """Return the fields' values, or None if these arguments do not fit."""
        if len(args) == len(self._fields) and not kwargs:
            return args
        given = {**dict(zip(self._fields, args, strict=False)), **kwargs}
        values = [
            given[name] if name in given else self._defaults[name]
            for name in self._fields
            if name in given or name in self._defaults
        ]
        is_whole = len(given) == len(args) + len(kwargs) and given.keys() <= {*self._fields} and len(values) == len(self._fields)
        return values if is_whole else None

    def _compiled(self) -> Any:
        names = "".join(f"{name}, " for name in self._fields)
        text = f"def __new__(_cls, {names}):\n return _tuple(_cls, ({names}))"
        known: dict[str, Any] = {"_tuple": tuple.__new__}
        exec(text, known)  # noqa: S102 - as the standard library does: the text holds only the names of a class's fields
        new = known["__new__"]
        new.__defaults__ = tuple(self._defaults.values())
        new.__module__, new.__qualname__ = self.made.__module__, f"{self.made.__name__}.__new__"
        self.made.__new__ = staticmethod(new)
        return new


_known_getters: list[Any] = []


def _getters(number: int) -> Iterable[Any]:
    """Return the descriptors of ``number`` fields. All classes share them, because a descriptor knows only its position."""
    if len(_known_getters) < number:
        names, make = [f"field_{place}" for place in range(max(number, 12))], cast("Any", collections.namedtuple)
        wide = make("wide", names)
        _known_getters[:] = [vars(wide)[name] for name in names]
    return _known_getters[:number]


def _make(cls: Any, values: Iterable[Any]) -> Any:
    made = tuple.__new__(cls, values)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _replace(self: Any, /, **changes: Any) -> Any:
    made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"Got unexpected field names: {[*changes]!r}")
    return made


def _asdict(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _shown(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in zip(self._fields, self, strict=True))})"


def _arguments(self: Any) -> tuple[Any, ...]:
    return tuple(self)


_METHODS: dict[str, Any] = {
    "_make": classmethod(_make),
    "_replace": _replace,
    "__replace__": _replace,
    "_asdict": _asdict,
    "__repr__": _shown,
    "__getnewargs__": _arguments,
}

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:

    class _Kind(type):
        """Turns a class statement with NamedTuple as its base into a tuple class."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            if len(bases) > 1:
                raise TypeError(f"{name}: a NamedTuple can't have another base; use typing.NamedTuple for a generic one")
            return _defined(name, body)

    class NamedTuple(metaclass=_Kind):
        """Base of a class whose annotations are the fields of a tuple, like ``typing.NamedTuple``."""
