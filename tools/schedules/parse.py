"""Reading of schedules: English words for times, and cron expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta

from toolcrib.contract.regex import Regex
from tools.schedules.hints import hint
from tools.schedules.schedule import NEVER, Schedule, checked_cron
from tools.schedules.words import (
    DATE,
    DAY,
    DAY_LIST,
    DURATION,
    LIST,
    NIGHT_ENDS,
    NTH,
    NTH_DAY,
    TIME,
    TIMES,
    clock_of,
    clocks_of,
    date_of,
    in_part_of_day,
    is_either_half,
    nth_of,
    number_of,
    seconds_of,
    tonight,
    weekday_of,
    weekdays_of,
)
from tools.schedules.zones import ScheduleError, instant_of, local_zone, wall_of, zone_of

EXAMPLES = (
    *("in 20 minutes", "tomorrow at 8am", "on friday at 17:00", "on 24 december at 18:00", "2026-12-24 18:00"),
    *(
        "every 2 hours",
        "every 30 minutes between 9 and 17 on weekdays",
        "every weekday at 9",
        "every monday and thursday at 18:30",
    ),
    *(
        "every day at 9 and 17:30",
        "every 3 days at 8",
        "on the 1st of each month at 07:30",
        "on the last day of each month at noon",
    ),
    *(
        "on the first monday of each month at 9",
        "every year on 1 january at 0:05",
        "0 9 * * 1-5 (cron: minute hour day month weekday)",
    ),
)
MOST_CHARS = 200
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_ZONE_BEHIND = Regex(r"(.*?)[\s,]+\(?(?:in\s)?([A-Za-z_]+/[A-Za-z0-9_+\-/]+|UTC|GMT)\)?")
_CRON = Regex(r"[\d*][\d*/,\-]*(\s+[\d*/,\-#?A-Za-z]+){3,5}")
_WORD = Regex(r"(?i)\bat\b|[a-z]{4}")
"""A word that stands in no expression of cron."""
_EVERY = Regex(
    rf"(?:every|each)\s({DURATION})(?:\s(?:between|from)\s({TIME})\s(?:and|to|until)\s({TIME})(?:\son\s({DAY_LIST}))?)?"
)
_WEEKLY = Regex(rf"(?:(?:every|each|weekly on|every week on|on)\s)?({DAY_LIST})\s(?:at\s)?({TIMES})")
_DAILY = Regex(rf"(?:every\s?day|each\sday|daily)\s(?:at\s)?({TIMES})")
_SOME_DAYS = Regex(rf"every\s(\d+|[a-z]+)\s(day|week)s?\s(?:at\s)?({TIMES})")
_OF_MONTH = r"(?:of\s)?(?:each|every|the|a)\smonth"
_MONTHLY = Regex(
    rf"(?:(?:on\s)?(?:the\s)?((?:{NTH_DAY}|last(?:\sday)?)(?:{LIST}(?:the\s)?(?:{NTH_DAY}|last(?:\sday)?))*)\s{_OF_MONTH}"
    rf"|(?:monthly|(?:every|each)\smonth)\son\s(?:the\s)?((?:{NTH_DAY}|last(?:\sday)?)(?:{LIST}(?:the\s)?{NTH_DAY})*))"
    rf"\s(?:at\s)?({TIMES})"
)
_NTH_WEEKDAY = Regex(
    r"(?:(?:on|every|each)\s)?(?:the\s)?(first|second|third|fourth|fifth|last|[1-5](?:st|nd|rd|th))"
    rf"\s({DAY})\s{_OF_MONTH}\s(?:at\s)?({TIMES})"
)
_YEARLY = Regex(
    rf"(?:(?:every\syear|each\syear|yearly)\son\s({DATE})|(?:on\s|every\s)({DATE})\s(?:of\s)?(?:every|each)\syear)"
    rf"\s(?:at\s)?({TIMES})"
)
_IN = Regex(rf"in\s({DURATION})")
_ISO = Regex(r"(?:on\s)?(\d{4}-\d{2}-\d{2})(?:t|\s(?:at\s)?)(\d{1,2}:\d{2})(?::00)?(z|[+-]\d{2}:?\d{2})?")
_ONCE = Regex(
    rf"(?:(today|tonight|tomorrow|(?:the\s)?day\safter\stomorrow|(?:(?:on|next|this)\s)?{DAY}"
    rf"|(?:on\s)?{DATE}(?:,?\s\d{{4}})?)\s)?"
    rf"(?:at\s)?({TIME})"
)
_DAY_PART = Regex(rf"(?:every|each)\s(morning|afternoon|evening|night)\s(?:at\s)?({TIMES})")
_AT_FIRST = Regex(rf"(?:at\s)?({TIMES})\s((?:every|each|daily|on|weekly|monthly|tomorrow|today|week\s?days?)\b.*)")


def read(text: str, zone: str = "", *, now: float, usual: str = "") -> Schedule:
    """Return what a text says, in a zone by its IANA name; "" for that in the text, else the ``usual`` one, else this machine's.
    ``now`` (Unix seconds) is what "tomorrow" is counted from. Raises ScheduleError with what can be understood.
    """
    words = " ".join(text.split())
    if len(words) > MOST_CHARS:
        raise ScheduleError(f"schedule: at most {MOST_CHARS} characters")
    behind = _ZONE_BEHIND.fullmatch(words)
    if behind is not None and behind[1]:
        words, said_zone = behind[1], zone_of(behind[2]).key
        if zone and zone_of(zone).key != said_zone:
            raise ScheduleError(f"zone: the schedule says {behind[2]}, and the zone is {zone}: say one of them")
        zone = said_zone
    zone = zone_of(zone or usual or local_zone()).key
    cron = _ALIASES.get(words.lower(), words)
    if _CRON.fullmatch(cron) and not _WORD.search(cron):
        return Schedule("cron", zone, cron=(checked_cron(cron),))
    said = words.lower().replace("a.m.", "am").replace("p.m.", "pm").rstrip(".!")
    if (turned := _AT_FIRST.fullmatch(said)) is not None:
        said = f"{turned[2]} at {turned[1]}"
    if (part := _DAY_PART.fullmatch(said)) is not None:
        said = in_part_of_day(part[1], part[2])
    if (found := _by_readers(said, zone, now)) is not None:
        return found
    missing = hint(said, lambda other: _would_read(other, zone, now))
    why = f": {missing}" if missing else ""
    raise ScheduleError(f"schedule: {text!r} can't be understood{why}. What can be: {'; '.join(EXAMPLES)}")


def _by_readers(said: str, zone: str, now: float) -> Schedule | None:
    for read_one in _READERS:
        if (found := read_one(said, zone, now)) is not None:
            return found
    return None


def _would_read(said: str, zone: str, now: float) -> bool:
    try:
        return _by_readers(said, zone, now) is not None
    except ScheduleError:
        return False


# -- what comes again ----------------------------------------------------------------------------------------------------


def _every(said: str, zone: str, now: float) -> Schedule | None:
    said = {"hourly": "every hour"}.get(said, said)
    found = _EVERY.fullmatch(said)
    seconds = None if found is None else seconds_of(found[1])
    if found is None or seconds is None:
        return None
    if found[2]:
        first, last = clock_of(found[2]), clock_of(found[3])
        if is_either_half(found[3]) and last < first < 13 * 60:  # "from 9 to 5"
            raise ScheduleError(f"schedule: {said!r}: say of {found[3]} whether it is am or pm")
        return _between(seconds, first, last, found[4] or "", zone)
    if seconds >= 86_400 and said.split()[1] in ("day", "week"):
        raise ScheduleError(f"schedule: {said!r}: say at what time, such as {said} at 9; or every 24 hours, counted from now")
    return Schedule("every", zone, seconds=seconds)


def _between(seconds: int, first: int, last: int, days: str, zone: str) -> Schedule:
    """Return each time of a raster from one time of the day up to another, both included, over midnight too."""
    if first == last or seconds < 60 or seconds % 60:
        raise ScheduleError("schedule: between two times that differ, in whole minutes")
    if first > last and days:
        raise ScheduleError("schedule: on some days between two times of one of them, the earlier first")
    last += 24 * 60 * (first > last)
    minutes = [minute % (24 * 60) for minute in range(first, last + 1, seconds // 60)]
    return _by_cron(minutes, f"* * {weekdays_of(days) if days else '*'}", zone)


def _weekly(said: str, zone: str, now: float) -> Schedule | None:
    found = _WEEKLY.fullmatch(said)
    if found is None:
        return None
    one, is_said_once = found[1], said.startswith(("on ", found[1]))
    if is_said_once and weekday_of(one) is not None and not one.endswith("days"):  # "on friday", "friday": the next one
        return None
    return _by_cron(clocks_of(found[2]), f"* * {weekdays_of(one)}", zone)


def _daily(said: str, zone: str, now: float) -> Schedule | None:
    found = _DAILY.fullmatch(said)
    return None if found is None else _by_cron(clocks_of(found[1]), "* * *", zone)


def _some_days(said: str, zone: str, now: float) -> Schedule | None:
    found = _SOME_DAYS.fullmatch(said)
    many = None if found is None else number_of(found[1])
    if found is None or many is None:
        return None
    days, minutes = many * (7 if found[2] == "week" else 1), tuple(sorted(set(clocks_of(found[3]))))
    if not 1 <= days <= 366:
        raise ScheduleError("schedule: every 1 to 366 days")
    today = wall_of(now, zone_of(zone))
    is_over = today.hour * 60 + today.minute >= minutes[-1]
    return Schedule("days", zone, at=float(today.date().toordinal() + is_over), days=days, minutes=minutes)


def _monthly(said: str, zone: str, now: float) -> Schedule | None:
    found = _MONTHLY.fullmatch(said)
    if found is None:
        return None
    days = [one.replace("the ", "").strip() for one in Regex(LIST).split(found[1] or found[2])]
    fields = ["L" if day.startswith("last") else str(nth_of(day)) for day in days]
    return _by_cron(clocks_of(found[3]), f"{','.join(fields)} * *", zone)


def _nth_weekday(said: str, zone: str, now: float) -> Schedule | None:
    found = _NTH_WEEKDAY.fullmatch(said)
    if found is None:
        return None
    nth, day = found[1], ((weekday_of(found[2]) or 0) + 1) % 7
    last_field = f"{day}L" if nth == "last" else f"{day}#{NTH.get(nth) or nth_of(nth)}"
    return _by_cron(clocks_of(found[3]), f"* * {last_field}", zone)


def _yearly(said: str, zone: str, now: float) -> Schedule | None:
    found = _YEARLY.fullmatch(said)
    if found is None:
        return None
    day, month = date_of(found[1] or found[2])
    return _by_cron(clocks_of(found[3]), f"{day} {month} *", zone)


# -- what comes once -----------------------------------------------------------------------------------------------------


def _in(said: str, zone: str, now: float) -> Schedule | None:
    found = _IN.fullmatch(said)
    seconds = None if found is None else seconds_of(found[1])
    return None if seconds is None else Schedule("in", zone, seconds=seconds)


def _iso(said: str, zone: str, now: float) -> Schedule | None:
    found = _ISO.fullmatch(said)
    if found is None:
        return None
    try:
        wall = datetime.fromisoformat(f"{found[1]} {found[2].zfill(5)}")
        at = datetime.fromisoformat(f"{wall.isoformat()}{found[3].upper()}").timestamp() if found[3] else None
    except ValueError as error:
        raise ScheduleError(f"schedule: {said!r}: {error}") from error
    return _at(instant_of(wall, zone_of(zone)) if at is None else at, said, zone, now)


def _once(said: str, zone: str, now: float) -> Schedule | None:
    found = _ONCE.fullmatch(said)
    if found is None:
        return None
    here, minute = zone_of(zone), clock_of(found[2])
    today = wall_of(now, here).date()
    if not found[1]:
        at = _instant(today, minute, zone)
        return Schedule("once", zone, at=at if at > now else _instant(today + timedelta(days=1), minute, zone))
    day = found[1].removeprefix("on ").removeprefix("the ")
    if day in ("today", "tonight", "tomorrow", "day after tomorrow"):
        ahead = {"tomorrow": 1, "day after tomorrow": 2}.get(day, 0)
        if day == "tonight":
            minute = tonight(found[2], is_night=wall_of(now, here).hour < NIGHT_ENDS)
        elif day == "today" and found[2] == "midnight":
            ahead = 1
        return _at(_instant(today + timedelta(days=ahead), minute, zone), said, zone, now)
    if (weekday := weekday_of(day.removeprefix("next ").removeprefix("this "))) is not None:
        ahead = (weekday - today.weekday()) % 7
        at = _instant(today + timedelta(days=ahead), minute, zone)
        return Schedule("once", zone, at=at if at > now else _instant(today + timedelta(days=ahead + 7), minute, zone))
    return _on_date(day, minute, said, zone, now)


def _on_date(day: str, minute: int, said: str, zone: str, now: float) -> Schedule:
    given = Regex(r"(.*?),?\s(\d{4})").fullmatch(day)
    number, month = date_of(day if given is None else given[1])
    this_year = wall_of(now, zone_of(zone)).year
    for year in [int(given[2])] if given is not None else range(this_year, this_year + 9):
        try:
            at = _instant(date(year, month, number), minute, zone)
        except ValueError:
            continue
        if at > now:
            return Schedule("once", zone, at=at)
    raise ScheduleError(f"schedule: {said!r}: {NEVER if given is None else 'that time is over, or there is no such day'}")


def _at(at: float, said: str, zone: str, now: float) -> Schedule:
    if at <= now:
        raise ScheduleError(f"schedule: {said!r}: that time is over")
    return Schedule("once", zone, at=at)


_READERS: Sequence[Callable[[str, str, float], Schedule | None]] = (
    *(_in, _every, _daily, _some_days, _weekly, _monthly, _nth_weekday, _yearly, _iso, _once),
)


# -- parts ---------------------------------------------------------------------------------------------------------------


def _by_cron(minutes: Sequence[int], days: str, zone: str) -> Schedule:
    """Return the schedule of these minutes of the days that the last three fields name. Hours of one minute share a row."""
    by_hours: dict[tuple[int, ...], list[int]] = {}
    by_minute: dict[int, list[int]] = {}
    for one in sorted(set(minutes)):
        by_minute.setdefault(one % 60, []).append(one // 60)
    for minute, hours in by_minute.items():
        by_hours.setdefault(tuple(hours), []).append(minute)
    found = [f"{','.join(map(str, sorted(given)))} {_listed(hours)} {days}" for hours, given in by_hours.items()]
    return Schedule("cron", zone, cron=tuple(map(checked_cron, found)))


def _listed(hours: Sequence[int]) -> str:
    """Return hours as a field of an expression."""
    whole = len(hours) > 2 and list(hours) == list(range(hours[0], hours[-1] + 1))
    return f"{hours[0]}-{hours[-1]}" if whole else ",".join(map(str, hours))


def _instant(day: date, minute: int, zone: str) -> float:
    return instant_of(datetime.combine(day, datetime.min.time()) + timedelta(minutes=minute), zone_of(zone))
