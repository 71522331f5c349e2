"""Names of tools and of their arguments on the wire, and back: wires accept only some characters, at most 64 of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.regex import Regex
from toolcrib.contract.schema_view import SchemaView
from toolcrib.contract.types import Json

_ALLOWED = Regex(r"[a-zA-Z0-9_-]{1,64}")
_NINE = Regex(r"[a-zA-Z0-9]{9}")
_OTHER = Regex(r"[^a-zA-Z0-9_-]")


@dataclass(frozen=True, slots=True)
class WireKeys:
    """Names of a tool's arguments that the wire refuses, nested ones included, with their names on the wire."""

    view: SchemaView
    to_wire: Mapping[str, str]

    def sent(self, args: Json) -> Json:
        return _renamed(args, self.view, lambda name: (name, self.to_wire.get(name, name)))

    def received(self, args: Json) -> Json:
        back = {wire: name for name, wire in self.to_wire.items()}
        return _renamed(args, self.view, lambda wire: (back.get(wire, wire), back.get(wire, wire)))


def _renamed(value: Json, view: SchemaView | None, names: Callable[[str], tuple[str, str]]) -> Json:
    """Return ``value`` with the keys of known properties renamed. ``names`` returns a key's own name and its new one."""
    if view is None:
        return value
    if isinstance(value, list):
        return [_renamed(item, view.item(index), names) for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    known, made = view.names, {}
    for key, item in value.items():
        own, new = names(key)
        made[new if own in known and new not in value else key] = _renamed(item, view.property(own), names)
    return made


class WireNames:
    """Maps the names of tools and of their arguments to names that the wire accepts, and back.

    Valid names stay as they are. ``order`` has the tools' own names in the order of the request.
    """

    def __init__(self, names: Iterable[str], keys: Mapping[str, WireKeys] | None = None) -> None:
        names = list(names)
        self.order: Sequence[str] = names
        self._keys = keys or {}
        self._to: dict[str, str] = {}
        self._back: dict[str, str] = {}
        all_names = sorted(set(names))
        for name in [*filter(_ALLOWED.fullmatch, all_names), *(name for name in all_names if not _ALLOWED.fullmatch(name))]:
            wire = _plain(name)
            if wire in self._back:
                wire = _marked(name)
            self._to[name], self._back[wire] = wire, name

    def wire(self, name: str) -> str:
        return self._to.get(name) or _plain(name)

    def accepted(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return a call as the model made it, with a name that the wire accepts: an invented name would fail each request."""
        name = call.get("name")
        return {**call, "name": self.wire(name)} if isinstance(name, str) and name and self.wire(name) != name else call

    def own(self, wire: str) -> str:
        """Return the tool's own name; an unknown name is returned unchanged."""
        return self._back.get(wire, wire)

    def wire_args(self, name: str, args: Json) -> Json:
        """Return a tool's arguments with the names that the wire accepts."""
        return self._keys[name].sent(args) if name in self._keys else args

    def own_args(self, name: str, args: Json) -> Json:
        """Return arguments from the wire with their own names."""
        return self._keys[name].received(args) if name in self._keys else args


def wire_id(call_id: str, size: int = 64) -> str:
    """Return a call id of another server in a form that every wire accepts.

    Anthropic limits the characters, OpenAI the length.
    """
    return call_id if _ALLOWED.fullmatch(call_id) and len(call_id) <= size else _marked(call_id, size)


def nine_id(call_id: str) -> str:
    """Return a call id in the form that Mistral's servers require: 9 letters and digits."""
    return call_id if _NINE.fullmatch(call_id) else hashlib.sha256(call_id.encode()).hexdigest()[:9]


def _plain(name: str) -> str:
    if _ALLOWED.fullmatch(name):
        return name
    return _OTHER.sub("_", name) if 0 < len(name) <= 64 else _marked(name)


def wire_key(name: str, accepted: Regex[str], taken: Collection[str]) -> str:
    """Return a name for the argument ``name`` that matches ``accepted`` and is not in ``taken``."""
    plain = _OTHER.sub("_", name)
    for made in (plain, f"_{plain}", _marked(name), f"_{_marked(name)[1:]}"):
        if accepted.fullmatch(made) and made not in taken:
            return made
    return _marked(f"_{name}!")


def _marked(name: str, size: int = 64) -> str:
    return f"{_OTHER.sub('_', name)[: size - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
