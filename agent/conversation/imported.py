"""Imported sessions: store what their file recorded, and export it unchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.conversation.lineage import DELEGATE, FORK, IMPORT, IMPORTED, never_ran

_NATIVE, _WAS_NATIVE = "native", "was_native"
"""Keys of a record's provider-native reply. No wire reads the second, which marks an imported record."""
_WAS = "was"
"""Key of ``place`` and ``via`` of the imported file, as JSON; removed once the session has its own."""


def imported_place(source: str, place: Mapping[str, str], via: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``SessionInfo.place`` of a session imported from ``source``, whose file had this place and via."""
    said = {_WAS: json.dumps({"place": dict(place), "via": dict(via)})} if place or via else {}
    return {IMPORTED: source, **said}


def imported_lineage(parent: str, why: str) -> tuple[str, str]:
    """Return ``SessionInfo.parent`` and ``why`` of an imported session whose file had these values."""
    return (parent, why) if parent and why in (FORK, DELEGATE) else ("", IMPORT)


def exported_place(place: Mapping[str, str], via: Mapping[str, str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return place and via for export. If the session never ran here, these are the values of its imported file."""
    if not never_ran(place) or _WAS not in place:
        return place, via
    was = json.loads(place[_WAS])
    return was["place"], was["via"]


def imported_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's record in the form that the store keeps."""
    return {_WAS_NATIVE if key == _NATIVE else key: value for key, value in record.items()}


def exported_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored record in the form that a file has."""
    return {_NATIVE if key == _WAS_NATIVE else key: value for key, value in record.items()}
