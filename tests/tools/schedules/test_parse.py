"""Schedules that are read from text, and the errors, which name valid forms."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.schedules.parse import EXAMPLES, read
from tools.schedules.schedule import Schedule, time_words
from tools.schedules.zones import ScheduleError, local_zone

BERLIN = "Europe/Berlin"
NOW = datetime(2026, 11, 24, 16, 40, tzinfo=ZoneInfo(BERLIN)).timestamp()
"""A Tuesday."""


def first(text: str, zone: str = BERLIN) -> str:
    schedule = read(text, zone, now=NOW).begun(NOW)
    at = schedule.after(NOW)
    return "" if at is None else time_words(at, schedule.zone)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every weekday at 9", "Wed 25 Nov 2026 09:00"),
        ("in 20 minutes", "Tue 24 Nov 2026 17:00"),
        ("in 1 hour and 30 minutes", "Tue 24 Nov 2026 18:10"),
        ("in 1h30m", "Tue 24 Nov 2026 18:10"),
        ("every 30m", "Tue 24 Nov 2026 17:10"),
        ("every hour", "Tue 24 Nov 2026 17:40"),
        ("On the 1st and the 15th of every month at 9", "Tue 01 Dec 2026 09:00"),
        ("every fri at 5 pm", "Fri 27 Nov 2026 17:00"),
        ("every day at 9am and 5pm", "Tue 24 Nov 2026 17:00"),
        ("today at 18", "Tue 24 Nov 2026 18:00"),
        ("every day at 12am", "Wed 25 Nov 2026 00:00"),
        ("0 12 L * *", "Mon 30 Nov 2026 12:00"),
        ("2026-12-24 18:00:00", "Thu 24 Dec 2026 18:00"),
        ("every 2 hours", "Tue 24 Nov 2026 18:40"),
        ("on the 1st of each month at 07:30", "Tue 01 Dec 2026 07:30"),
        ("tomorrow at 8am", "Wed 25 Nov 2026 08:00"),
        ("at 9", "Wed 25 Nov 2026 09:00"),
        ("at 17", "Tue 24 Nov 2026 17:00"),
        ("on friday at 17:00", "Fri 27 Nov 2026 17:00"),
        ("on tuesday at 9", "Tue 01 Dec 2026 09:00"),
        ("every mon, wed and fri at 7:15", "Wed 25 Nov 2026 07:15"),
        ("every weekend at 10", "Sat 28 Nov 2026 10:00"),
        ("every day at 9 and 17:30", "Tue 24 Nov 2026 17:30"),
        ("every 2 weeks at 10", "Wed 25 Nov 2026 10:00"),
        ("2026-12-24 18:00", "Thu 24 Dec 2026 18:00"),
        ("2026-12-24T17:00Z", "Thu 24 Dec 2026 18:00"),
        ("2026-12-24T12:00-05:00", "Thu 24 Dec 2026 18:00"),
        ("0 9 * * 1-5", "Wed 25 Nov 2026 09:00"),
        ("*/15 * * * *", "Tue 24 Nov 2026 16:45"),
        ("0 9 * * mon#1", "Mon 07 Dec 2026 09:00"),
        ("@daily", "Wed 25 Nov 2026 00:00"),
    ],
)
def test_words_mean_what_people_mean(text: str, expected: str) -> None:
    assert first(text).rpartition(" ")[0] == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("on friday at 17", "once, on Friday 27 November 2026 at 17:00"),
        ("every friday at 17", "at 17:00 on Friday"),
        ("every weekday at 9", "at 09:00 on Monday through Friday"),
        ("every 3 days at 8", "every 3 days at 08:00, from 25 Nov 2026 on"),
        ("on the 31st of each month at 9", "at 09:00 on the 31st day of every month"),
        ("on the 22nd of each month at 9", "at 09:00 on the 22nd day of every month"),
        ("on the 11th of each month at 9", "at 09:00 on the 11th day of every month"),
    ],
)
def test_what_was_understood_is_said_back(text: str, words: str) -> None:
    assert read(text, BERLIN, now=NOW).words() == words


def test_a_zone_may_stand_behind_it() -> None:
    assert first("every day at 9 America/New_York", "") == "Wed 25 Nov 2026 09:00 EST"
    assert first("every day at 9 in Asia/Tokyo", "") == "Wed 25 Nov 2026 09:00 JST"
    with pytest.raises(ScheduleError, match="use only one"):
        read("at 9 Asia/Tokyo", BERLIN, now=NOW)


def test_a_zone_that_is_said_goes_before_the_usual_one_and_may_be_in_any_letters() -> None:
    assert read("every day at 9 Asia/Tokyo", now=NOW, usual=BERLIN).zone == "Asia/Tokyo"
    assert read("every day at 9", now=NOW, usual=BERLIN).zone == BERLIN
    assert read("every day at 9 europe/berlin", BERLIN, now=NOW).zone == BERLIN
    assert read("every day at 9", "EUROPE/BERLIN", now=NOW).zone == BERLIN
    with pytest.raises(ScheduleError, match="no time zone 'Mars/Olympus'"):
        read("every day at 9 Mars/Olympus", BERLIN, now=NOW)


def test_without_a_zone_it_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert read("at 9", now=NOW).zone == "Asia/Tokyo"
    monkeypatch.setenv("TZ", "no such zone")
    assert local_zone() == "UTC"


NO_FORM = (
    *("whenever you like", "", "every day", "tomorrow", "every monday", "weekly", "daily at 9", "2026-12-24", "on the 31st at 9"),
    *("every last friday", "every second friday at 9", "in 3 months", "every month", "every 0.1 seconds", "in 99999999999 years"),
    *("every 2 fortnights", "maybe 5 at 9", "every hour from 9 to 5", "every 30 minutes between 9 and 17 on weekdays"),
    *("every morning at 9pm", "on 24 december at 18:00", "24 december 2027 at 18", "on the last day of each month at noon"),
    *(
        "on the first monday of each month at 9",
        "every year on 1 january at 0:05",
        "tonight at 9",
        "friday at 17",
        "* *",
        "@reboot",
    ),
    *("in \uff12\uff10 minutes", "every 20 ms", "in an hour", "at 9 and 17"),
)


@pytest.mark.parametrize("text", NO_FORM)
def test_a_text_without_a_known_form_is_an_error_that_lists_the_forms(text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        read(text, BERLIN, now=NOW)
    forms = f"{'; '.join(EXAMPLES)} (cron: minute hour day month weekday)"
    assert str(caught.value).endswith(f"schedule: {text!r} is not a known form. Use one of these: {forms}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("61 * * * *", "bad minute"),
        ("* * * * * *", "has 5 fields"),
        ("* * 15W", "has 5 fields"),
        ("0 0 31 2 *", "day-of-month"),
        ("at 25", "25:00 is not a time of day. Use 0:00 to 23:59, or 1am to 12pm"),
        ("at 13pm", "1am to 12pm"),
        ("at 0am", "1am to 12pm"),
        ("every day at 9 and 9:75", "9:75 is not a time of day"),
        ("today at 3", "has passed"),
        ("2020-01-01 10:00", "has passed"),
        ("2026-02-30 10:00", "schedule:"),
        ("on the 32nd of each month at 9", "day-of-month"),
        ("in 0 minutes", "five years"),
        ("in 300 weeks", "five years"),
        ("every day at 9am and 5", "Write am or pm after every time, or after none"),
        ("every monday at 8 and 9pm", "Write am or pm after every time, or after none"),
        ("x" * 201, "at most 200"),
        ("every 0 days at 9", "1 to 366"),
        ("every 53 weeks at 9", "1 to 366"),
    ],
)
def test_a_known_form_with_impossible_values_says_what_is_wrong(text: str, words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        read(text, BERLIN, now=NOW)
    assert words in str(caught.value)


def test_an_unknown_zone_is_told_with_the_nearest() -> None:
    with pytest.raises(ScheduleError, match="did you mean Europe/Berlin"):
        read("at 9", "Europe/Berln", now=NOW)
    for bad in ("../etc/passwd", "/etc/localtime", "x" * 300, "Europe\0"):
        with pytest.raises(ScheduleError, match="no time zone"):
            read("at 9", bad, now=NOW)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_that_errors_show_can_be_read(example: str) -> None:
    assert read(example, BERLIN, now=NOW).words()


@pytest.mark.parametrize(
    ("stored", "words", "next_time"),
    [
        (
            {"kind": "cron", "cron": ["0 9-17 * * MON-FRI", "30 9-16 * * MON-FRI"]},
            (
                "at minute 0 past every hour from 9 through 17 on Monday through Friday; "
                "at minute 30 past every hour from 9 through 16 on Monday through Friday"
            ),
            "Tue 24 Nov 2026 17:00",
        ),
        ({"kind": "cron", "cron": ["0 12 L * *"]}, "at 12:00 on the last day of every month", "Mon 30 Nov 2026 12:00"),
        ({"kind": "cron", "cron": ["0 9 * * 1#1"]}, "at 09:00 on the first Monday of the month", "Mon 07 Dec 2026 09:00"),
        ({"kind": "cron", "cron": ["5 0 1 1 *"]}, "at 00:05 on January 1", "Fri 01 Jan 2027 00:05"),
        ({"kind": "once", "at": 1798131600.0}, "once, on Thursday 24 December 2026 at 18:00", "Thu 24 Dec 2026 18:00"),
        ({"kind": "every", "at": NOW, "seconds": 5400}, "every 1 hour 30 minutes", "Tue 24 Nov 2026 18:10"),
    ],
)
def test_stored_schedules_of_forms_that_were_dropped_go_on(stored: dict[str, Any], words: str, next_time: str) -> None:
    """The stored form contains the meaning: "every 30 minutes between 9 and 17 on weekdays", "every 1.5 hours" and others."""
    schedule = Schedule.from_json({"zone": BERLIN, **stored})
    assert schedule.words() == words
    assert time_words(schedule.times(NOW, 1)[0], BERLIN) == f"{next_time} CET"


WORDS = "every each in at on the of and 9 9:30 day days weekday monday fri month hour 2 minutes tomorrow 1st last year pm".split()


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8))
def test_whatever_is_said_it_is_read_or_refused(words: list[str]) -> None:
    try:
        schedule = read(" ".join(words), "UTC", now=NOW)
    except ScheduleError:
        return
    times = schedule.begun(NOW).times(NOW, 3)
    assert times
    assert all(one < later for one, later in itertools.pairwise([NOW, *times]))
    assert schedule.words()


@given(st.text(max_size=220))
def test_no_text_is_an_unexpected_error(text: str) -> None:
    try:
        read(text, "UTC", now=NOW)
    except ScheduleError:
        return
