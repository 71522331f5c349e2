"""The part that is missing in words for times that can't be read, where that is known: better than a list of all that can be."""

from __future__ import annotations

from collections.abc import Callable

from toolcrib.contract.regex import Regex
from tools.schedules.words import DATE, DAY, NTH_DAY, TIMES

_MONTHS = Regex(r"(?:in|every|each)\s(?:\w+\s)?(month|quarter|year)s?(?:\s.*)?")
_ROUND = {"weekly": "every monday at 9", "monthly": "on the 1st of each month at 9", "yearly": "every year on 1 january at 9"}
_NTH_DAY = Regex(rf"(?:every|each|on|the)\s(?:the\s)?(first|second|third|fourth|fifth|last|other)\s({DAY})(?:\s.*)?")
_OF_WHICH = Regex(rf"(?:on\s)?(?:the\s)?({NTH_DAY})\s(?:at\s)?({TIMES})")
_DATE_LIKE = Regex(rf"(?:on\s)?(?:\d{{4}}-\d{{2}}-\d{{2}}|{DATE}(?:,?\s\d{{4}})?)")


def hint(said: str, reads: Callable[[str], bool]) -> str:
    """Return what to say instead, "" where that is not known. ``reads`` tells whether a text would be understood."""
    if said.removesuffix("s") in ("annual", "annually"):
        said = "yearly"
    if said in _ROUND:
        return f"say the day and the time, such as {_ROUND[said]}"
    if (found := _NTH_DAY.fullmatch(said)) is not None:
        nth = "second" if found[1] == "other" else found[1]
        rest = ", or, from today on, every 2 weeks at 9" if nth == "second" else ""
        return f"say on the {nth} {found[2]} of each month at 9{rest}"
    if (found := _MONTHS.fullmatch(said)) is not None and not said.startswith("in "):
        return "say the day and the time, such as on the 1st of each month at 9, or every year on 1 january at 9"
    if found is not None:
        return "name the date, such as on 24 december at 18:00"
    if reads(f"{said} at 9:00") or _DATE_LIKE.fullmatch(said) is not None:
        return f"say at what time, such as {said} at 9:00"
    if (found := _OF_WHICH.fullmatch(said)) is not None and not found[1].isdecimal():
        return f"say of which month, such as on the {found[1]} of each month at {found[2]}, or on 24 december at {found[2]}"
    if "*" in said:
        return "a cron expression has 5 fields, such as 0 9 * * 1-5: minute hour day month weekday"
    return ""
