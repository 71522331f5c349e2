"""A schedule and its times. Times are Unix seconds; local times are in the schedule's zone.

Each local time of a schedule occurs once. If the clocks are set forward and skip it, it occurs at the moment of the change; if
they are set back and repeat it, it occurs at the earlier of the two moments. An interval ("every 2 hours") is elapsed time,
independent of such changes. If the machine's own clock is set back, ``moved`` adapts the schedule.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, TypeAlias, cast

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Json
from tools.schedules.zones import ScheduleError, instant_of, repeats_by, wall_of, zone_of

Kind: TypeAlias = Literal["in", "once", "every", "days", "cron"]
_FIELDS = 5
_DAY_MINUTES = 24 * 60
_LEAP_YEARS = 9 * 366
"""Number of days within which every date occurs, and every pair of adjacent dates."""
NEVER = "that time never occurs"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule, made by ``tools.schedules.parse.read``.

    ``in``: once, ``seconds`` after it begins. ``once``: at ``at``; ``seconds`` is the time from its start until then, if it was
    relative. ``every``: every ``seconds`` from its start ``at`` on. ``days``: every ``days`` days from the day with the ordinal
    ``at``, at the ``minutes`` of the day. ``cron``: when one of the expressions ``cron``, of five fields each, matches.
    """

    kind: Kind
    zone: str
    at: float = 0.0
    seconds: int = 0
    days: int = 0
    minutes: tuple[int, ...] = ()
    cron: tuple[str, ...] = ()

    def begun(self, now: float) -> Schedule:
        """Return the schedule as one that begins at ``now``: times relative to its start become absolute."""
        if self.kind == "in":
            return replace(self, kind="once", at=float(math.floor(now)) + self.seconds)
        return replace(self, at=float(math.floor(now))) if self.kind == "every" and not self.at else self

    def after(self, now: float) -> float | None:
        """Return the schedule's first time after ``now``, None if there is none. The schedule must have begun."""
        match self.kind:
            case "once":
                return self.at if self.at > now else None
            case "every":
                return self.at + self.seconds * (math.floor((now - self.at) / self.seconds) + 1)
            case "days":
                return next((at for at in self._days_from(now) if at > now), None)
            case _:
                found = [at for at in (_cron_after(one, self.zone, now) for one in self.cron) if at is not None]
                return min(found, default=None)

    def moved(self, now: float, next_at: float, back: float) -> Schedule | None:
        """Return the schedule for a clock that was set back to ``now``, by ``back`` seconds. The elapsed time still counts.

        If ``back`` is 0 (unknown), the schedule begins again now if ``next_at`` is further ahead than its ``seconds``. Return
        None for a schedule that needs no change.
        """
        if self.kind not in ("every", "once") or not self.seconds or (not back and next_at <= now + self.seconds + 1.0):
            return None
        at = min(next_at - back, now + self.seconds) if back else now + self.seconds
        at = math.floor(max(at, now + 1.0) * 1024) / 1024  # so that sums of it are exact
        return replace(self, at=at if self.kind == "once" else at - self.seconds)

    def latest(self, now: float, since: float) -> float:
        """Return the schedule's last time up to ``now``, but at least ``since``, which is one of its times."""
        match self.kind:
            case "once":
                return since
            case "every":
                return max(since, self.at + self.seconds * math.floor((now - self.at) / self.seconds))
            case "days":
                found = [at for at in self._days_from(now - 86_400.0 * 2 * self.days) if at <= now]
                return max([since, *found])
            case _:
                return max([since, *(_cron_latest(one, self.zone, now, since) for one in self.cron)])

    def times(self, now: float, many: int) -> list[float]:
        """Return the schedule's next times, at most ``many``."""
        found: list[float] = []
        while len(found) < many and (at := self.after(found[-1] if found else now)) is not None:
            found.append(at)
        return found

    def shortest(self, now: float) -> float:
        """Return the shortest time between two times of the schedule, in seconds; infinity if it occurs once.

        Ignores clock changes.
        """
        match self.kind:
            case "every":
                return float(self.seconds)
            case "days":
                minutes, apart = list(self.minutes), self.days
            case "cron":
                minutes = sorted({minute for one in self.cron for minute in _minutes_of(one)})
                apart = _days_apart(self.cron, now)
            case _:
                return math.inf
        inside = [later - minute for minute, later in itertools.pairwise(minutes)]
        return 60.0 * min([*inside, apart * _DAY_MINUTES - minutes[-1] + minutes[0]])

    @property
    def is_quick(self) -> bool:
        """True if several of its times may be in one minute, so that they differ in their seconds."""
        return self.kind == "every" and self.seconds < 60

    def _days_from(self, now: float) -> Iterator[float]:
        zone, first = zone_of(self.zone), int(self.at)
        today = wall_of(now, zone).date().toordinal()
        day = first + max(0, (today - 1 - first) // self.days) * self.days
        for ordinal in range(day, min(day + 3 * self.days + 1, date.max.toordinal()), self.days):
            midnight = datetime.combine(date.fromordinal(ordinal), datetime.min.time())
            for minute in self.minutes:
                yield instant_of(midnight + timedelta(minutes=minute), zone)

    def words(self) -> str:
        """Describe the schedule for users, without its zone."""
        match self.kind:
            case "in":
                return f"once, {lasting(self.seconds)} after its approval"
            case "once":
                return f"once, on {_day_words(wall_of(self.at, zone_of(self.zone)))}"
            case "every":
                return f"every {lasting(self.seconds)}"
            case "days":
                first = date.fromordinal(int(self.at))
                hours = " and ".join(f"{minute // 60:02}:{minute % 60:02}" for minute in self.minutes)
                return f"every {self.days} days at {hours}, from {first:%d %b %Y} on"
            case _:
                return "; ".join(_cron_words(one) for one in self.cron)

    def to_json(self) -> dict[str, Json]:
        """Return the schedule as JSON, for a store."""
        given: dict[str, Json] = {"at": self.at, "seconds": self.seconds, "days": self.days}
        given |= {"minutes": list(self.minutes), "cron": list(self.cron)}
        return {"kind": self.kind, "zone": self.zone, **{key: value for key, value in given.items() if value}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Schedule:
        """Return the schedule that ``to_json`` wrote. Raises ScheduleError for invalid data."""
        try:
            return cls(
                cast(Kind, data["kind"]),
                str(data["zone"]),
                float(data.get("at", 0.0)),
                int(data.get("seconds", 0)),
                int(data.get("days", 0)),
                tuple(map(int, data.get("minutes", ()))),
                tuple(map(str, data.get("cron", ()))),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ScheduleError(f"a stored schedule can't be read ({type(error).__name__}: {error})") from error


def checked_cron(expression: str) -> str:
    """Return a cron expression with normalised blanks. Raises ScheduleError if it is invalid or never matches."""
    from cronsim import CronSimError

    fields = expression.split()
    if len(fields) != _FIELDS:
        raise ScheduleError(
            f"schedule: a cron expression has {_FIELDS} fields (minute hour day month weekday), not {len(fields)}"
        )
    try:
        found = next(_simulated(" ".join(fields), datetime(2024, 1, 1)), None)
    except CronSimError as error:
        raise ScheduleError(f"schedule: {expression!r} is not a cron expression: {str(error).lower()}") from error
    if found is None:
        raise ScheduleError(f"schedule: {expression!r}: {NEVER}")
    return " ".join(fields)


def _simulated(expression: str, wall: datetime, *, reverse: bool = False) -> Iterator[datetime]:
    """Yield the local times that match an expression, after or before ``wall``, ignoring clock changes."""
    from cronsim import CronSim

    return CronSim(expression, wall, reverse)


def _cron_after(expression: str, zone_name: str, now: float) -> float | None:
    zone = zone_of(zone_name)
    wall = wall_of(now, zone).replace(second=0, microsecond=0, fold=0)
    return next((at for at in (instant_of(one, zone) for one in _simulated(expression, wall)) if at > now), None)


def _cron_latest(expression: str, zone_name: str, now: float, since: float) -> float:
    zone = zone_of(zone_name)
    wall = wall_of(now, zone).replace(second=0, microsecond=0, fold=0) + repeats_by(now, zone) + timedelta(minutes=1)
    for one in _simulated(expression, wall, reverse=True):
        if (at := instant_of(one, zone)) <= now:
            return max(at, since)
    return since


def _minutes_of(expression: str) -> Iterator[int]:
    """Yield the minutes of a day that match an expression."""
    minute, hour, *_ = expression.split()
    for wall in _simulated(f"{minute} {hour} * * *", datetime(2024, 1, 1) - timedelta(minutes=1)):
        if wall.date() != date(2024, 1, 1):
            return
        yield wall.hour * 60 + wall.minute


def _days_apart(expressions: Sequence[str], now: float) -> int:
    """Return the minimum number of days between two matching days within the next ``_LEAP_YEARS`` days."""
    begins = datetime.fromtimestamp(now, UTC).replace(tzinfo=None)
    ends = begins + timedelta(days=_LEAP_YEARS)
    walls = (_simulated(f"0 0 {' '.join(one.split()[2:])}", begins) for one in expressions)
    shortest, before = _LEAP_YEARS, 0
    for wall in itertools.takewhile(lambda wall: wall < ends, heapq.merge(*walls)):
        day = wall.date().toordinal()
        if before and day > before:
            shortest = min(shortest, day - before)
        before = day
        if shortest == 1:
            break
    return shortest


def _cron_words(expression: str) -> str:
    from cronsim import CronSim

    words = CronSim(expression, datetime(2024, 1, 1)).explain()
    words = Regex(r"\b(\d+)(?:st|nd|rd|th)\b").sub(lambda found: _nth_words(int(found[1])), words)
    return words[:1].lower() + words[1:]


def _nth_words(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))


def lasting(seconds: float) -> str:
    """Return a duration as text: ``2 hours 30 minutes``."""
    left, parts = round(seconds), []
    for unit, size in _UNITS:
        many, left = divmod(left, size)
        if many:
            parts.append(f"{many} {unit}{'' if many == 1 else 's'}")
    return " ".join(parts) or "0 seconds"


def _day_words(wall: datetime) -> str:
    return f"{wall:%A %d %B %Y} at {wall:%H:%M}" + (f":{wall:%S}" if wall.second else "")


def time_words(at: float, zone_name: str, *, exact: bool = False) -> str:
    """Return an instant in a zone as text: ``Wed 25 Nov 2026 09:00 CET``; with seconds if ``exact``."""
    from datetime import UTC

    try:
        there = datetime.fromtimestamp(at, zone_of(zone_name))
    except ScheduleError:  # the zone's data no longer exists
        there = datetime.fromtimestamp(at, UTC)
    return f"{there:%a %d %b %Y %H:%M:%S %Z}" if exact else f"{there:%a %d %b %Y %H:%M %Z}"
