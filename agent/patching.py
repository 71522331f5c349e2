"""Apply JSON Patch (RFC 6902) to values of bounded size. A running call may report its progress as a patch of its last report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from toolcrib.contract.types import Json

MOST_NODES = 2_000
"""Maximum number of values in a snapshot. Each list and object counts, and so does each value in it."""
MOST_OPERATIONS = 1_000
_DEEPEST = 32
_LARGEST_INT = 1 << 63
Place: TypeAlias = "dict[str, Any] | list[Any]"


class PatchUnfit(ValueError):
    """The patch can't be applied. The value is unchanged."""


def plain_copy(value: object, most: int = MOST_NODES) -> Json:
    """Return a copy as JSON, cut at ``most`` values and 32 levels: NaN becomes null, and other objects become text."""
    return _copied(value, [most], _DEEPEST)


def patched(value: Json, operations: Sequence[object]) -> Json:
    """Return a copy of ``value`` with all operations applied. Raises PatchUnfit if one of them can't be applied."""
    if len(operations) > MOST_OPERATIONS:
        raise PatchUnfit(f"{len(operations):,} operations in one patch; at most {MOST_OPERATIONS:,} are applied")
    whole: dict[str, Any] = {"": plain_copy(value)}
    nodes = _size(whole[""])
    for operation in operations:
        if not isinstance(operation, Mapping):
            raise PatchUnfit("an operation is not an object")
        nodes += _apply(whole, operation, MOST_NODES - nodes)
    return plain_copy(whole[""])  # cut again: moves may have nested values deeper


def _apply(whole: dict[str, Any], operation: Mapping[Any, Any], room: int) -> int:
    """Apply one operation to the value that ``whole`` has under the key ""; return how many values it added."""
    kind, path = operation.get("op"), _steps(operation.get("path"))
    if kind == "test":
        if _found(whole, path) != plain_copy(operation.get("value")):
            raise PatchUnfit(f"test: {operation.get('path')!r} has another value")
        return 0
    if kind == "remove":
        return -_size(_taken(whole, path))
    if kind == "add" or kind == "replace":
        value = plain_copy(operation.get("value"), MOST_NODES + 1)
    elif kind == "copy" or kind == "move":
        origin = _steps(operation.get("from"))
        if kind == "move" and len(path) > len(origin) and path[: len(origin)] == origin:
            raise PatchUnfit("move: a value can't be moved into itself")
        value = _taken(whole, origin) if kind == "move" else plain_copy(_found(whole, origin))
    else:
        raise PatchUnfit(f"{str(kind)[:40]!r} is not an operation")
    added = _size(value)
    if kind != "move" and added > room:
        raise PatchUnfit(f"the value would have more than {MOST_NODES:,} parts")
    if kind == "replace":
        removed = _size(_found(whole, path))
        _put(whole, path, value, over=True)
        return added - removed
    return (0 if kind == "move" else added) - _put(whole, path, value, over=False)


def _steps(pointer: object) -> list[str]:
    """Return the steps of a JSON Pointer. The first one is always "", the key of the whole value."""
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise PatchUnfit(f"{str(pointer)[:80]!r} is not a path")
    steps = pointer.split("/")
    if len(steps) > _DEEPEST:
        raise PatchUnfit("the path is too deep")
    return [step.replace("~1", "/").replace("~0", "~") for step in steps]


def _found(whole: dict[str, Any], path: list[str]) -> Any:
    value: Any = whole
    for step in path:
        value = value[_key(value, step)]
    return value


def _taken(whole: dict[str, Any], path: list[str]) -> Any:
    place = _place(whole, path)
    key = _key(place, path[-1])
    value = place[key]  # type: ignore[index]  # _key returned a key of this place
    if place is whole:
        whole[""] = None
    else:
        del place[key]  # type: ignore[arg-type]  # as above
    return value


def _put(whole: dict[str, Any], path: list[str], value: Any, *, over: bool) -> int:
    """Put a value at a place, and return how many values it replaced.

    ``over``: replace an existing item, and return 0, because the caller has counted the old values.
    """
    place, last = _place(whole, path), path[-1]
    if isinstance(place, dict):
        gone = 0 if over or last not in place else _size(place[last])
        place[last] = value
        return gone
    if over:
        place[int(_key(place, last))] = value
    else:
        at = len(place) if last == "-" else _index(last)
        if at > len(place):
            raise PatchUnfit(f"the list has {len(place)} elements; nothing can be added at {at}")
        place.insert(at, value)
    return 0


def _place(whole: dict[str, Any], path: list[str]) -> Place:
    place = _found(whole, path[:-1]) if len(path) > 1 else whole
    if not isinstance(place, (dict, list)):
        raise PatchUnfit(f"{path[-1][:80]!r}: its parent is neither an object nor a list")
    return place


def _key(place: Any, step: str) -> str | int:
    """Return the key or index of an existing item in ``place``."""
    if isinstance(place, dict) and step in place:
        return step
    if isinstance(place, list) and (at := _index(step)) < len(place):
        return at
    raise PatchUnfit(f"there is no {step[:80]!r}")


def _index(step: str) -> int:
    if not (step.isascii() and step.isdigit()) or len(step) > 6 or (step[0] == "0" and step != "0"):
        raise PatchUnfit(f"{step[:80]!r} is not an index")
    return int(step)


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(map(_size, value.values()))
    return 1 + sum(map(_size, value)) if isinstance(value, list) else 1


def _copied(value: object, left: list[int], deep: int) -> Any:
    left[0] -= 1
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, int):
        return int(value) if -_LARGEST_INT < value < _LARGEST_INT else f"a number of {value.bit_length():,} bits"
    if isinstance(value, float):
        return float(value) if -float("inf") < value < float("inf") else None
    if isinstance(value, (Mapping, list, tuple)) and deep <= 0:
        return "…"
    if isinstance(value, Mapping):
        return {str(key): _copied(one, left, deep - 1) for key, one in _some(list(value.items()), left)}
    if isinstance(value, (list, tuple)):
        return [_copied(one, left, deep - 1) for one in _some(value, left)]
    return str(value)


def _some(items: Sequence[Any], left: list[int]) -> Any:
    for item in items:
        if left[0] <= 0:
            return
        yield item
