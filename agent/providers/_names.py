"""Tool names on the wire: Chat Completions accepts only letters, digits, - and _, at most 64 characters."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from toolcrib.contract.regex import Regex

_ALLOWED = Regex(r"[a-zA-Z0-9_-]{1,64}")
_OTHER = Regex(r"[^a-zA-Z0-9_-]")


class WireNames:
    """Maps each tool's name to one that the wire accepts, and back. Valid names stay as they are."""

    def __init__(self, names: Iterable[str]) -> None:
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

    def own(self, wire: str) -> str:
        """Return the tool's own name; an unknown name is returned unchanged."""
        return self._back.get(wire, wire)


def wire_id(call_id: str) -> str:
    """Return a call id of another wire in a form that every wire accepts: Anthropic limits the letters, OpenAI the length."""
    return call_id if _ALLOWED.fullmatch(call_id) else _marked(call_id)


def _plain(name: str) -> str:
    if _ALLOWED.fullmatch(name):
        return name
    return _OTHER.sub("_", name) if 0 < len(name) <= 64 else _marked(name)


def _marked(name: str) -> str:
    return f"{_OTHER.sub('_', name)[:55]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
