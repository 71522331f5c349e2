"""Reading of schedules: what is meant, and an error that says what can be for all else."""

from __future__ import annotations

import itertools
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.schedules.parse import EXAMPLES, read
from tools.schedules.schedule import time_words
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
        ("in half an hour", "Tue 24 Nov 2026 17:10"),
        ("in 1 hour and 30 minutes", "Tue 24 Nov 2026 18:10"),
        ("in two weeks", "Tue 08 Dec 2026 16:40"),
        ("every 2 hours", "Tue 24 Nov 2026 18:40"),
        ("hourly", "Tue 24 Nov 2026 17:40"),
        ("on the 1st of each month at 07:30", "Tue 01 Dec 2026 07:30"),
        ("On the 1st and the 15th of every month at 9.", "Tue 01 Dec 2026 09:00"),
        ("on the last day of each month at noon", "Mon 30 Nov 2026 12:00"),
        ("the last friday of every month at 16:00", "Fri 27 Nov 2026 16:00"),
        ("on the first monday of each month at 9", "Mon 07 Dec 2026 09:00"),
        ("tomorrow at 8am", "Wed 25 Nov 2026 08:00"),
        ("the day after tomorrow at 8 p.m.", "Thu 26 Nov 2026 20:00"),
        ("at 9", "Wed 25 Nov 2026 09:00"),
        ("at 17", "Tue 24 Nov 2026 17:00"),
        ("tonight at 9pm", "Tue 24 Nov 2026 21:00"),
        ("tonight at 9", "Tue 24 Nov 2026 21:00"),
        ("tonight at 11:30", "Tue 24 Nov 2026 23:30"),
        ("tonight at 22", "Tue 24 Nov 2026 22:00"),
        ("tonight at midnight", "Wed 25 Nov 2026 00:00"),
        ("tonight at 12", "Wed 25 Nov 2026 00:00"),
        ("tonight at 2", "Wed 25 Nov 2026 02:00"),
        ("today at midnight", "Wed 25 Nov 2026 00:00"),
        ("on friday at 17:00", "Fri 27 Nov 2026 17:00"),
        ("on tuesday at 9", "Tue 01 Dec 2026 09:00"),
        ("fridays at 5 pm", "Fri 27 Nov 2026 17:00"),
        ("every mon, wed and fri at 7:15", "Wed 25 Nov 2026 07:15"),
        ("friday to monday at 8", "Fri 27 Nov 2026 08:00"),
        ("friday at 17", "Fri 27 Nov 2026 17:00"),
        ("on sept. 5 at 9", "Sun 05 Sep 2027 09:00"),
        ("every 40 minutes between 22 and 6", "Tue 24 Nov 2026 22:00"),
        ("every last friday of the month at 9", "Fri 27 Nov 2026 09:00"),
        ("every evening at 8", "Tue 24 Nov 2026 20:00"),
        ("every morning at 7 and 8:30", "Wed 25 Nov 2026 07:00"),
        ("every night at 12", "Wed 25 Nov 2026 00:00"),
        ("noon on friday", "Fri 27 Nov 2026 12:00"),
        ("in an hour and a half", "Tue 24 Nov 2026 18:10"),
        ("every 1.5 hours", "Tue 24 Nov 2026 18:10"),
        ("every weekend at 10", "Sat 28 Nov 2026 10:00"),
        ("every day at 9 and 17:30", "Tue 24 Nov 2026 17:30"),
        ("at 7 and 19 every day", "Tue 24 Nov 2026 19:00"),
        ("at midnight every day", "Wed 25 Nov 2026 00:00"),
        ("every 30 minutes between 9 and 17 on weekdays", "Tue 24 Nov 2026 17:00"),
        ("every 2 weeks at 10", "Wed 25 Nov 2026 10:00"),
        ("every other day at 18:00", "Tue 24 Nov 2026 18:00"),
        ("on 24 december at 18:00", "Thu 24 Dec 2026 18:00"),
        ("on december 24 2027 at 6pm", "Fri 24 Dec 2027 18:00"),
        ("24 december at 18", "Thu 24 Dec 2026 18:00"),
        ("24 december 2027 at 18", "Fri 24 Dec 2027 18:00"),
        ("every day at 9am and 17", "Tue 24 Nov 2026 17:00"),
        ("every hour between 10pm and 6", "Tue 24 Nov 2026 22:00"),
        ("every night at 2am", "Wed 25 Nov 2026 02:00"),
        ("on 1 march at 9", "Mon 01 Mar 2027 09:00"),
        ("every year on 1 january at 0:05", "Fri 01 Jan 2027 00:05"),
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
        ("friday at 17", "once, on Friday 27 November 2026 at 17:00"),
        ("on friday at 17", "once, on Friday 27 November 2026 at 17:00"),
        ("fridays at 17", "at 17:00 on Friday"),
        ("mon-fri at 9", "at 09:00 on Monday through Friday"),
        ("on the 31st of each month at 9", "at 09:00 on the 31st day of every month"),
        ("on the 22nd of each month at 9", "at 09:00 on the 22nd day of every month"),
        ("on the 11th of each month at 9", "at 09:00 on the 11th day of every month"),
    ],
)
def test_what_was_understood_is_said_back(text: str, words: str) -> None:
    assert read(text, BERLIN, now=NOW).words() == words


def test_between_two_times_may_be_a_night() -> None:
    times = read("every 2 hours between 22 and 6", BERLIN, now=NOW).times(NOW, 6)
    assert [datetime.fromtimestamp(at, ZoneInfo(BERLIN)).hour for at in times] == [22, 0, 2, 4, 6, 22]


def test_tonight_is_never_this_morning() -> None:
    """Said at six in the morning, and at one in the night."""
    for hour, text, expected in ((6, "tonight at 9", "21:00"), (6, "tonight at 6", "18:00"), (1, "tonight at 2", "02:00")):
        now = datetime(2026, 11, 24, hour, 0, tzinfo=ZoneInfo(BERLIN)).timestamp()
        at = read(text, BERLIN, now=now).after(now)
        assert at is not None
        assert time_words(at, BERLIN) == f"Tue 24 Nov 2026 {expected} CET"


def test_a_zone_may_stand_behind_it() -> None:
    assert first("every day at 9 America/New_York", "") == "Wed 25 Nov 2026 09:00 EST"
    assert first("every day at 9 in Asia/Tokyo", "") == "Wed 25 Nov 2026 09:00 JST"
    with pytest.raises(ScheduleError, match="say one of them"):
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("whenever you like", "can't be understood. What can be: in 20 minutes; tomorrow at 8am"),
        ("", "can't be understood"),
        ("every day", "say at what time"),
        ("tomorrow", "can't be understood: say at what time, such as tomorrow at 9:00. What can be: in 20 minutes"),
        ("every monday", "say at what time, such as every monday at 9:00"),
        ("weekly", "say the day and the time, such as every monday at 9"),
        ("daily", "say at what time, such as daily at 9:00"),
        ("2026-12-24", "say at what time, such as 2026-12-24 at 9:00"),
        ("on the 31st at 9", "say of which month, such as on the 31st of each month at 9"),
        ("every last friday", "say on the last friday of each month at 9"),
        ("every second friday at 9", "say on the second friday of each month at 9, or, from today on, every 2 weeks"),
        ("in 3 months", "name the date, such as on 24 december"),
        ("every month", "say the day and the time"),
        ("* * 15W", "a cron expression has 5 fields"),
        ("every 0.1 seconds", "from a second up"),
        ("61 * * * *", "bad minute"),
        ("* * * * * *", "has 5 fields"),
        ("0 0 31 2 *", "day-of-month"),
        ("at 25", "no time of a day"),
        ("at 13pm", "1am to 12pm"),
        ("at 9:75", "no time of a day"),
        ("today at 3", "is over"),
        ("2020-01-01 10:00", "is over"),
        ("2026-02-30 10:00", "schedule:"),
        ("on 31 february at 9", "never comes"),
        ("on the 32nd of each month at 9", "no day of a month"),
        ("in 0 minutes", "five years"),
        ("in 99999999999 years", "can't be understood"),
        ("every 2 fortnights", "can't be understood"),
        ("every 10 minutes between 17 and 9 on weekdays", "the earlier first"),
        ("every 10 minutes between 9 and 9", "that differ"),
        ("maybe 5 at 9", "can't be understood"),
        ("marching 5 at 9", "can't be understood"),
        ("every hour from 9 to 5", "say of 5 whether it is am or pm"),
        ("every 30 minutes between 9am and 5 on weekdays", "say of 5 whether it is am or pm"),
        ("every day at 9am and 5", "say of 5 too whether it is am or pm"),
        ("every monday at 8 and 9pm", "say of 8 too whether it is am or pm"),
        ("every morning at 9pm", "'9pm' is not in the morning: say every day at 21:00"),
        ("every evening at 9am", "'9am' is not in the evening"),
        ("every afternoon at 11", "'11' is not in the afternoon"),
        ("x" * 201, "at most 200"),
        ("every 0 days at 9", "1 to 366"),
    ],
)
def test_what_can_not_be_understood_says_what_can(text: str, words: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        read(text, BERLIN, now=NOW)
    assert words in str(caught.value)


def test_an_unknown_zone_is_told_with_the_nearest() -> None:
    with pytest.raises(ScheduleError, match="did you mean Europe/Berlin"):
        read("at 9", "Europe/Berln", now=NOW)
    for bad in ("../etc/passwd", "/etc/localtime", "x" * 300, "Europe\0"):
        with pytest.raises(ScheduleError, match="no time zone"):
            read("at 9", bad, now=NOW)


def test_every_example_that_errors_show_can_be_read() -> None:
    for example in EXAMPLES:
        assert read(example.partition(" (cron")[0], BERLIN, now=NOW).words()


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
