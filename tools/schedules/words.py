"""Parts of schedules in English: durations, times of a day, weekdays, dates."""

from __future__ import annotations

import calendar

from toolcrib.contract.regex import Regex
from tools.schedules.zones import ScheduleError

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = tuple(name.lower() for name in calendar.month_name[1:])
_NUMBERS = {
    word: number for number, word in enumerate("one two three four five six seven eight nine ten eleven twelve".split(), 1)
}
_NUMBERS |= {"a": 1, "an": 1, "other": 2, "second": 2}
NIGHT_ENDS = 5
"""The hour up to which it is the night of the day before."""
NTH = {word: number for number, word in enumerate("first second third fourth fifth".split(), 1)}
_SECONDS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600}
_SECONDS |= {"d": 86_400, "day": 86_400, "w": 604_800, "week": 604_800}
_MOST_SECONDS = 366 * 86_400 * 5

TIME = r"(?:\d{1,2}(?::\d{2})?(?:\s?[ap]m)?(?:\s?o'?clock)?|noon|midnight)"
TIMES = rf"(?:{TIME}(?:(?:\s?,\s?|\s?,?\s?and\s)(?:at\s)?{TIME})*)"
DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?s?"
LIST = r"(?:\s?,\s?|\s?,?\s?and\s|\s?/\s?)"
DAY_LIST = rf"(?:{DAY}(?:{LIST}{DAY})*|{DAY}\s?(?:-|to|through)\s?{DAY}|week\s?days?|work(?:ing)?\s?days?|weekends?)"
NTH_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sep(?:t(?:ember)?)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
DATE = rf"(?:the\s)?(?:{NTH_DAY}\s(?:of\s)?{MONTH}|{MONTH}\s{NTH_DAY})"
DURATION = r"(?:(?:\d+(?:\.\d+)?\s?|half an?\s|[a-z]+\s)?[a-z]+(?:\s?,?\s?(?:and\s)?\d+\s?[a-z]+)*(?:\sand\sa\shalf)?)"

_AMOUNT = Regex(r"(?:(\d+(?:\.\d+)?(?=\s?[a-z])|half an?(?=\s)|[a-z]+(?=\s))\s?)?([a-z]+)")
_CLOCK = Regex(r"(\d{1,2})(?::(\d{2}))?\s?([ap]m)?(?:\s?o'?clock)?")


def seconds_of(text: str) -> int | None:
    """Return seconds, None for what is no duration."""
    total, text, halves = 0.0, text.removesuffix(" and a half"), text.endswith(" and a half")
    for part in Regex(r"\s?,\s?(?:and\s)?|\sand\s|(?<=[a-z])\s(?=\d)").split(text):
        found = _AMOUNT.fullmatch(part.strip())
        if found is None:
            return None
        unit = _SECONDS.get(found[2]) or _SECONDS.get(found[2].removesuffix("s"))
        if unit is None:
            return None
        if (found[1] or "").startswith("half"):
            total += unit // 2
        elif (many := number_of(found[1] or "a")) is not None:
            total += many * unit
        elif "." in (found[1] or "") and len(found[1]) < 10:
            total += float(found[1]) * unit
        else:
            return None
        if halves:
            total, halves = total + unit / 2, False
    if not 1 <= total <= _MOST_SECONDS:
        raise ScheduleError(f"schedule: {text!r}: from a second up to five years")
    return round(total)


def number_of(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else _NUMBERS.get(text)


def clock_of(text: str) -> int:
    """Return a time as a minute of the day."""
    if text in ("noon", "midnight"):
        return 720 if text == "noon" else 0
    found = _CLOCK.fullmatch(text)
    assert found is not None, "matched before"  # noqa: S101 - for the type checker
    hour, minute = int(found[1]), int(found[2] or 0)
    if found[3]:
        if not 1 <= hour <= 12:
            raise ScheduleError(f"schedule: {text!r} is no time: 1am to 12pm")
        hour = hour % 12 + 12 * (found[3] == "pm")
    if hour > 23 or minute > 59:
        raise ScheduleError(f"schedule: {text!r} is no time of a day: 0:00 to 23:59")
    return hour * 60 + minute


def tonight(text: str, *, is_night: bool) -> int:
    """Return a time of this evening, or of the night behind it, as a minute counted from the beginning of this day. ``is_night``:
    it is the small hours, and one that they have may be of these.
    """
    minute, is_plain = clock_of(text), text[-1:] != "m" and text != "noon"
    if minute >= 12 * 60:
        return minute + 12 * 60 if minute < 13 * 60 and is_plain else minute  # tonight at 12
    if minute < NIGHT_ENDS * 60:
        return minute if is_night and minute else minute + 24 * 60
    return minute + 12 * 60 if is_plain else minute


def in_part_of_day(part: str, times: str) -> str:
    """Return the words for each day at these times of a morning, an afternoon, an evening or a night."""
    found = [(clock_of("midnight" if part == "night" and one == "12" else one), one) for one in Regex(TIME).findall(times)]
    ahead = {"morning": 0, "night": 6 * 60}.get(part, 1)
    minutes = [minute + 12 * 60 * (bool(ahead) and ahead <= minute < 12 * 60 and one[-1:] != "m") for minute, one in found]
    first, last = {"morning": (3, 12), "afternoon": (12, 18), "evening": (16, 24), "night": (18, 30)}[part]
    for minute, (_, one) in zip(minutes, found, strict=True):
        if not any(first * 60 <= at <= last * 60 for at in (minute, minute + 24 * 60)):
            raise ScheduleError(f"schedule: {one!r} is not in the {part}: say every day at {minute // 60}:{minute % 60:02}")
    return f"every day at {' and '.join(f'{minute // 60}:{minute % 60:02}' for minute in minutes)}"


def is_either_half(text: str) -> bool:
    """Return whether a time may be before noon as well as after it: ``9``, and neither ``9am``, ``17`` nor ``noon``."""
    return text[-1:] != "m" and text not in ("noon", "midnight") and 60 <= clock_of(text) < 13 * 60


def clocks_of(text: str) -> list[int]:
    """Return times as minutes of the day. Raises ScheduleError where some say which half of the day is meant, and some don't."""
    times = Regex(TIME).findall(text)
    if any(one.endswith("m") for one in times if one != "noon") and (plain := [one for one in times if is_either_half(one)]):
        raise ScheduleError(f"schedule: {text!r}: say of {plain[0]} too whether it is am or pm")
    return [clock_of(one) for one in times]


def weekday_of(text: str) -> int | None:
    """Return the number of a weekday, 0 for Monday; None for what is none."""
    found = [number for number, name in enumerate(_DAYS) if len(text) >= 3 and name.startswith(text.removesuffix("s")[:3])]
    return found[0] if found and Regex(DAY).fullmatch(text) else None


def weekdays_of(text: str) -> str:
    """Return the weekdays of a text as the last field of an expression."""
    if text.startswith("weekend"):
        return "SAT,SUN"
    if Regex(r"(?:week|work(?:ing)?)\s?days?").fullmatch(text):
        return "MON-FRI"
    numbers = [number for one in Regex(DAY).findall(text) if (number := weekday_of(one)) is not None]
    if Regex(rf"{DAY}\s?(?:-|to|through)\s?{DAY}").fullmatch(text):
        first, last = numbers
        numbers = [number % 7 for number in range(first, last + 1 + 7 * (last < first))]
    days = list(dict.fromkeys(numbers))
    if len(days) > 2 and days == list(range(days[0], days[0] + len(days))):
        return f"{_DAYS[days[0]][:3].upper()}-{_DAYS[days[-1]][:3].upper()}" if days[-1] < 6 else _by_name(days)
    return _by_name(days)


def _by_name(days: list[int]) -> str:
    return ",".join(_DAYS[number][:3].upper() for number in days)


def nth_of(text: str) -> int:
    number = int("".join(filter(str.isdecimal, text)) or 0)
    if not 1 <= number <= 31:
        raise ScheduleError(f"schedule: {text!r} is no day of a month")
    return number


def date_of(text: str) -> tuple[int, int]:
    """Return day and month."""
    found = Regex(MONTH).search(text)
    assert found is not None, "matched before"  # noqa: S101 - for the type checker
    month = next((number for number, name in enumerate(_MONTHS, 1) if name.startswith(found[0][:3])), 1)
    return nth_of(text.replace(found[0], "")), month
