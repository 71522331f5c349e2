"""Parse a schedule: one of the English forms in ``_FORMS``, an ISO time or a cron expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from toolcrib.contract.regex import Regex
from tools.schedules.schedule import Schedule, checked_cron
from tools.schedules.zones import ScheduleError, instant_of, local_zone, wall_of, zone_of

_MOST_CHARS = 200
_MOST_SECONDS = 366 * 86_400 * 5
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAYS = {"day": "*", "weekday": "MON-FRI", "weekend": "SAT,SUN"}
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

# -- parts of the forms --------------------------------------------------------------------------------------------------

_TIME = r"[0-9]{1,2}(?::[0-9]{2})?(?: ?[ap]m)?"
_TIMES = rf"{_TIME}(?:(?:, ?| and ){_TIME})*"
_DAY = r"(?:mon(?:day)?|tue(?:sday)?|wed(?:nesday)?|thu(?:rsday)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?)"
_NTH = r"[0-9]{1,2}(?:st|nd|rd|th)"
_AMOUNT = r"[0-9]{1,9} ?(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)"
_DURATION = rf"{_AMOUNT}(?:(?:,? ?| and ){_AMOUNT})*"
_ONE_TIME = Regex(r"([0-9]{1,2})(?::([0-9]{2}))? ?([ap]m)?")
_ONE_AMOUNT = Regex(r"([0-9]*) ?([smhdw])[a-z]*")
_ZONE_BEHIND = Regex(r"(.*?)[\s,]+\(?(?:in\s)?([A-Za-z_]+/[A-Za-z0-9_+\-/]+|UTC|GMT)\)?")


def _seconds_of(duration: str) -> int:
    amounts = _ONE_AMOUNT.findall(duration.replace(" and ", " "))
    seconds = sum(int(number or 1) * _SECONDS[unit] for number, unit in amounts)
    if not 1 <= seconds <= _MOST_SECONDS:
        raise ScheduleError(f"schedule: {duration!r} is too short or too long. Use from 1 second up to five years")
    return seconds


def _minutes_of(times: str) -> list[int]:
    """Return times as minutes of the day, earliest first."""
    found = _ONE_TIME.findall(times)
    if len({bool(half) for _, _, half in found}) > 1:
        raise ScheduleError(f"schedule: {times!r} is ambiguous. Write am or pm after every time, or after none")
    return sorted({_minute_of(int(hour), int(minute or 0), half) for hour, minute, half in found})


def _minute_of(hour: int, minute: int, half: str) -> int:
    if minute > 59 or not (1 <= hour <= 12 if half else hour <= 23):
        raise ScheduleError(f"schedule: {hour}:{minute:02}{half} is not a time of day. Use 0:00 to 23:59, or 1am to 12pm")
    return (hour % 12 + 12 * (half == "pm") if half else hour) * 60 + minute


def _on_days(days: str, times: str, zone: str) -> Schedule:
    """Return the schedule of these times on the days in the last three fields of a cron expression."""
    hours: dict[int, list[str]] = {}
    for minute in _minutes_of(times):
        hours.setdefault(minute % 60, []).append(str(minute // 60))
    return Schedule("cron", zone, cron=tuple(checked_cron(f"{minute} {','.join(at)} {days}") for minute, at in hours.items()))


# -- the forms: each function gets the match, the zone's name and the current time -----------------------------------------


def _in(found: re.Match[str], zone: str, now: float) -> Schedule:
    return Schedule("in", zone, seconds=_seconds_of(found[1]))


def _once(found: re.Match[str], zone: str, now: float) -> Schedule:
    day, today = found[1], wall_of(now, zone_of(zone)).replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    if day in (None, "today", "tomorrow"):
        days_ahead: Sequence[int] = {None: (0, 1), "today": (0,), "tomorrow": (1,)}[day]
    else:
        first = (_WEEKDAYS.index(day.removeprefix("on ")[:3]) - today.weekday()) % 7
        days_ahead = (first, first + 7)
    minutes = timedelta(minutes=_minutes_of(found[2])[0])
    times = [instant_of(today + timedelta(days=ahead) + minutes, zone_of(zone)) for ahead in days_ahead]
    return _first_of(times, found[0], zone, now)


def _iso(found: re.Match[str], zone: str, now: float) -> Schedule:
    try:
        at = datetime.fromisoformat(found[0].upper())
    except ValueError as error:
        raise ScheduleError(f"schedule: {found[0]!r}: {error}") from error
    return _first_of([at.timestamp() if at.tzinfo else instant_of(at, zone_of(zone))], found[0], zone, now)


def _first_of(times: Sequence[float], text: str, zone: str, now: float) -> Schedule:
    at = next((at for at in times if at > now), None)
    if at is None:
        raise ScheduleError(f"schedule: {text!r}: that time has passed")
    return Schedule("once", zone, at=at)


def _every(found: re.Match[str], zone: str, now: float) -> Schedule:
    return Schedule("every", zone, seconds=_seconds_of(found[1]))


def _weekly(found: re.Match[str], zone: str, now: float) -> Schedule:
    days = _DAYS.get(found[1]) or ",".join(day[:3].upper() for day in Regex(_DAY).findall(found[1]))
    return _on_days(f"* * {days}", found[2], zone)


def _every_few_days(found: re.Match[str], zone: str, now: float) -> Schedule:
    days, minutes = int(found[1]) * (7 if found[2] == "week" else 1), tuple(_minutes_of(found[3]))
    if not 1 <= days <= 366:
        raise ScheduleError(f"schedule: {found[0]!r}: use every 1 to 366 days")
    today = wall_of(now, zone_of(zone))
    is_over = today.hour * 60 + today.minute >= minutes[-1]
    return Schedule("days", zone, at=float(today.toordinal() + is_over), days=days, minutes=minutes)


def _monthly(found: re.Match[str], zone: str, now: float) -> Schedule:
    return _on_days(f"{','.join(Regex(r'[0-9]+').findall(found[1]))} * *", found[2], zone)


def _cron(found: re.Match[str], zone: str, now: float) -> Schedule:
    return Schedule("cron", zone, cron=(checked_cron(_ALIASES.get(found[0], found[0].upper())),))


_FORMS: Sequence[tuple[str, Regex[str], Callable[[re.Match[str], str, float], Schedule]]] = (
    ("in 20 minutes", Regex(rf"in ({_DURATION})"), _in),
    ("tomorrow at 8am", Regex(rf"(?:(today|tomorrow) )?at ({_TIME})"), _once),
    ("on friday at 17:00", Regex(rf"(on {_DAY}) at ({_TIME})"), _once),
    ("2026-12-24 18:00", Regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[t ][0-9]{2}:[0-9]{2}(?::00)?(?:z|[+-][0-9]{2}:?[0-9]{2})?"), _iso),
    ("every 2 hours", Regex(rf"every ({_DURATION}|hour|minute|second)"), _every),
    ("every day at 9 and 17:30", Regex(rf"every (day) at ({_TIMES})"), _weekly),
    ("every weekday at 9", Regex(rf"every (weekday|weekend) at ({_TIMES})"), _weekly),
    ("every monday and thursday at 18:30", Regex(rf"every ({_DAY}(?:(?:, ?| and ){_DAY})*) at ({_TIMES})"), _weekly),
    ("every 3 days at 8", Regex(rf"every ([0-9]{{1,3}}) (day|week)s? at ({_TIMES})"), _every_few_days),
    (
        "on the 1st of each month at 07:30",
        Regex(rf"on the ({_NTH}(?:(?:, ?| and )(?:the )?{_NTH})*) of (?:each|every) month at ({_TIMES})"),
        _monthly,
    ),
    ("0 9 * * 1-5", Regex(rf"[0-9*,/-]+ [0-9*,/-]+(?: [0-9a-z*,/#?-]+)+|{'|'.join(_ALIASES)}"), _cron),
)
"""Every form: an example of it, its pattern, and the function that returns its schedule."""
EXAMPLES = tuple(example for example, _, _ in _FORMS)


def read(text: str, zone: str = "", *, now: float, usual: str = "") -> Schedule:
    """Return the schedule in a text. Raises ScheduleError, which lists the forms if the text has none of them.

    The schedule's zone is ``zone`` (an IANA name) or the zone at the end of the text; without both, ``usual`` or this machine's.
    ``now`` (Unix seconds) is the base of words such as "tomorrow".
    """
    words = " ".join(text.split())
    if len(words) > _MOST_CHARS:
        raise ScheduleError(f"schedule: at most {_MOST_CHARS} characters")
    behind = _ZONE_BEHIND.fullmatch(words)
    if behind is not None and behind[1]:
        words, said_zone = behind[1], zone_of(behind[2]).key
        if zone and zone_of(zone).key != said_zone:
            raise ScheduleError(f"zone: the schedule says {behind[2]}, but the zone is {zone}: use only one")
        zone = said_zone
    zone = zone_of(zone or usual or local_zone()).key
    for _, pattern, schedule_of in _FORMS:
        if (found := pattern.fullmatch(words.lower())) is not None:
            return schedule_of(found, zone, now)
    forms = f"{'; '.join(EXAMPLES)} (cron: minute hour day month weekday)"
    raise ScheduleError(f"schedule: {text!r} is not a known form. Use one of these: {forms}")
