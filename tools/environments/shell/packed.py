"""A snapshot that is not needed now: compressed, and shared with equal ones."""

from __future__ import annotations

import threading
import weakref
import zlib

from tools.environments.shell.snapshot import ShellSnapshot

_SMALL = 64
"""Minimum length of a text that is worth compressing."""


class _Text:
    """A compressed text."""

    __slots__ = ("__weakref__", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data


_texts: weakref.WeakValueDictionary[bytes, _Text] = weakref.WeakValueDictionary()
_lock = threading.Lock()


class Packed:
    """A snapshot in compressed form. ``unpack`` returns an equal one."""

    __slots__ = ("_own", "_sections")

    def __init__(self, snapshot: ShellSnapshot) -> None:
        self._sections = tuple(map(_pack, snapshot.sections))
        self._own = snapshot.own

    def unpack(self) -> ShellSnapshot:
        """Return the snapshot."""
        return ShellSnapshot([_unpack(each) for each in self._sections], self._own)


def _pack(text: str) -> _Text | str:
    if len(text) < _SMALL:
        return text
    data = zlib.compress(text.encode("utf-8", "surrogateescape"), 6)
    with _lock:
        found = _texts.get(data)
        if found is None:
            found = _texts[data] = _Text(data)
    return found


def _unpack(text: _Text | str) -> str:
    return text if isinstance(text, str) else zlib.decompress(text.data).decode("utf-8", "surrogateescape")
