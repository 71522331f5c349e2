"""Sessions from files: what is kept of what a file says, and how it is written out again as it was."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.conversation.lineage import DELEGATE, FORK, IMPORT, IMPORTED, never_ran

_NATIVE, _WAS_NATIVE = "native", "was_native"
"""The key of what a wire takes back as it was, in records; of one that was imported no wire takes it."""
_WAS = "was"
"""The key of what an exported file said of these, as JSON; it goes once the session has its own."""


def imported_place(source: str, place: Mapping[str, str], via: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``SessionInfo.place`` of a session that was imported from ``source``, whose file had this place and this via."""
    said = {_WAS: json.dumps({"place": dict(place), "via": dict(via)})} if place or via else {}
    return {IMPORTED: source, **said}


def imported_lineage(parent: str, why: str) -> tuple[str, str]:
    """Return ``SessionInfo.parent`` and ``why`` of a session that was imported, whose file said these."""
    return (parent, why) if parent and why in (FORK, DELEGATE) else ("", IMPORT)


def exported_place(place: Mapping[str, str], via: Mapping[str, str]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return place and via as a file has them: as they were before the session was imported, where nothing of it ran since."""
    if not never_ran(place) or _WAS not in place:
        return place, via
    was = json.loads(place[_WAS])
    return was["place"], was["via"]


def imported_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record of a file as it is kept."""
    return {_WAS_NATIVE if key == _NATIVE else key: value for key, value in record.items()}


def exported_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record that is kept as a file has it."""
    return {_NATIVE if key == _WAS_NATIVE else key: value for key, value in record.items()}
