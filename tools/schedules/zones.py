"""Time zones by their IANA names, and the instants of local times, including times of clock changes."""

from __future__ import annotations

import functools
import os
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from toolcrib.contract.errors import InvalidArguments
from toolcrib.contract.suggest import near

_LOCALTIME = Path("/etc/localtime")
_FOLDER = "zoneinfo/"


class ScheduleError(InvalidArguments):
    """An invalid schedule or zone. The message gives the reason."""


@functools.lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """Return the zone with an IANA name, such as Europe/Berlin, in upper or lower case. Raises ScheduleError for any other."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        pass
    from zoneinfo import available_timezones

    known = available_timezones()
    found = next((one for one in known if one.lower() == name.lower()), None)
    if found is None:
        raise ScheduleError(_unknown(name, known))
    return ZoneInfo(found)


def _unknown(name: str, known: Collection[str]) -> str:
    if not known:
        return "time zone data is missing: install the system's tzdata, or the Python package tzdata"
    alike = near(name, sorted(known))
    meant = f"did you mean {alike[0]}?" if alike else "use a name of the IANA database, such as Europe/Berlin or UTC"
    return f"zone: there is no time zone {name!r}; {meant}"


def local_zone() -> str:
    """Return the IANA name of this machine's zone; UTC if it has no known one."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named and _LOCALTIME.is_symlink():
        named = str(_LOCALTIME.resolve()).partition(_FOLDER)[2]
    try:
        return zone_of(named).key if named else "UTC"
    except ScheduleError:
        return "UTC"


def wall_of(at: float, zone: ZoneInfo) -> datetime:
    """Return the local time of an instant (Unix seconds), without a zone but with its fold."""
    return datetime.fromtimestamp(at, zone).replace(tzinfo=None)


def instant_of(wall: datetime, zone: ZoneInfo) -> float:
    """Return the instant of a local time in Unix seconds. A later local time never has an earlier instant.

    For a time that occurs twice, this is the earlier instant; for a skipped time, the moment of the clock change.
    """
    before = wall.replace(tzinfo=zone, fold=0).utcoffset() or timedelta(0)
    after = wall.replace(tzinfo=zone, fold=1).utcoffset() or timedelta(0)
    plain = wall.replace(tzinfo=UTC).timestamp()
    if after <= before:
        return plain - before.total_seconds()
    early, late = int(plain - after.total_seconds()), int(plain - before.total_seconds())
    while late - early > 1:  # the change lies between the two
        middle = (early + late) // 2
        changed = datetime.fromtimestamp(middle, zone).utcoffset() == after
        early, late = (early, middle) if changed else (middle, late)
    return float(late)


def repeats_by(at: float, zone: ZoneInfo) -> timedelta:
    """Return by how much the clocks were set back if an instant's local time occurs for the second time, else 0."""
    wall = datetime.fromtimestamp(at, zone)
    if not wall.fold:
        return timedelta(0)
    first, second = wall.replace(fold=0).utcoffset(), wall.utcoffset()
    return (first or timedelta(0)) - (second or timedelta(0))
