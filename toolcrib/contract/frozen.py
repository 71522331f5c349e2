"""Read-only JSON: callers share what the registry returns, so they must not change it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NoReturn


def _refuse(self: object, *_args: object, **_kwargs: object) -> NoReturn:
    raise TypeError("this schema is shared and read-only; change a copy: copy.deepcopy(schema)")


class FrozenDict(dict[str, Any]):
    """A read-only dict that json.dumps and == treat as a dict. ``deepcopy`` gives a plain dict."""

    __slots__ = ()
    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return (freeze, (dict(self),))


class FrozenList(list[Any]):
    """The list counterpart of :class:`FrozenDict`."""

    __slots__ = ()
    __setitem__ = __delitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __iadd__ = __imul__ = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]

    def __reduce__(self) -> tuple[Any, ...]:
        return (freeze, (list(self),))


def freeze(value: Any) -> Any:
    """Return a deeply read-only copy of a JSON value. Scalars are returned unchanged."""
    if isinstance(value, dict):
        return FrozenDict({str(key): freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList(freeze(item) for item in value)
    if isinstance(value, Mapping):
        return freeze(dict(value))
    return value
