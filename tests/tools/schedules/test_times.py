"""Times of schedules, compared with an oracle that walks minute by minute, across zones and changes of their clocks."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.schedules.parse import read
from tools.schedules.schedule import Schedule, time_words

ZONES = (
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "America/Sao_Paulo"),
    *("Pacific/Apia", "UTC", "Europe/London", "America/St_Johns", "Antarctica/Troll"),
)
CHANGES = tuple(
    datetime.fromisoformat(f"{day}T00:00+00:00").timestamp()
    for day in (
        *("2026-03-29", "2026-10-25", "2026-03-08", "2026-11-01", "2026-04-05", "2026-10-04", "2018-11-04", "2018-02-18"),
        *("2011-12-30", "2024-02-29", "2023-12-31", "2026-02-15", "2026-03-22"),
    )
)
"""Days with a change of clocks somewhere, once by a whole day, and ends of months and years."""


def fits(minutes: set[int], hours: set[int], wall: datetime) -> bool:
    return wall.minute in minutes and wall.hour in hours


def walked(minutes: set[int], hours: set[int], zone: ZoneInfo, start: int, many: int) -> list[int]:
    """Return the times within ``many`` minutes after ``start``, minute by minute: each local time once, a skipped one at the
    moment when the clocks are set forward.
    """
    found = []
    before = datetime.fromtimestamp(start, zone)
    for at in range(start + 60, start + 60 * (many + 1), 60):
        now = datetime.fromtimestamp(at, zone)
        wall, last = now.replace(tzinfo=None), before.replace(tzinfo=None)
        skipped = [last + timedelta(minutes=one) for one in range(1, int((wall - last).total_seconds() // 60))]
        if (fits(minutes, hours, wall) and not now.fold) or any(fits(minutes, hours, one) for one in skipped):
            found.append(at)
        before = now
    return found


@settings(max_examples=150, deadline=None)
@given(
    zone=st.sampled_from(ZONES),
    day=st.sampled_from(CHANGES),
    ahead=st.integers(-24 * 60, 24 * 60),
    minutes=st.sets(st.integers(0, 59), min_size=1, max_size=4),
    hours=st.sets(st.integers(0, 23), min_size=1, max_size=24),
)
def test_times_are_those_that_a_walk_by_minutes_finds(
    zone: str, day: float, ahead: int, minutes: set[int], hours: set[int]
) -> None:
    expression = f"{','.join(map(str, sorted(minutes)))} {','.join(map(str, sorted(hours)))} * * *"
    schedule = read(expression, zone, now=day)
    start, many = int(day) + 60 * ahead, 30 * 60
    expected = walked(minutes, hours, ZoneInfo(zone), start, many)
    found: list[float] = []
    at = schedule.after(start)
    while at is not None and at <= start + 60 * many:
        found.append(at)
        at = schedule.after(at)
    assert found == expected, (expression, zone, time_words(start, zone))
    end = start + 60 * many
    assert schedule.latest(end, start) == (expected[-1] if expected else schedule.latest(end, start))
    for moment in (start + 60 * many // 2, end):  # also between two times, and when a local time occurs twice
        last = [one for one in expected if one <= moment]
        if last:
            assert schedule.latest(moment + 29.5, start) == last[-1]


@pytest.mark.parametrize(
    ("text", "zone", "since", "expected"),
    [
        ("every day at 2:30", "Europe/Berlin", "2026-03-28T12:00", ["Sun 29 Mar 2026 03:00 CEST", "Mon 30 Mar 2026 02:30 CEST"]),
        ("every day at 2:30", "Europe/Berlin", "2026-10-24T12:00", ["Sun 25 Oct 2026 02:30 CEST", "Mon 26 Oct 2026 02:30 CET"]),
        ("every day at 9", "Europe/Berlin", "2026-03-28T12:00", ["Sun 29 Mar 2026 09:00 CEST", "Mon 30 Mar 2026 09:00 CEST"]),
        ("0 12 29 2 *", "UTC", "2026-03-01T00:00", ["Tue 29 Feb 2028 12:00 UTC"]),
        ("0 12 29 2 *", "UTC", "2028-03-01T00:00", ["Sun 29 Feb 2032 12:00 UTC", "Fri 29 Feb 2036 12:00 UTC"]),
        ("0 12 29 2 *", "UTC", "2096-03-01T00:00", ["Fri 29 Feb 2104 12:00 UTC"]),
        ("on the 31st of each month at 9", "UTC", "2026-01-31T10:00", ["Tue 31 Mar 2026 09:00 UTC", "Sun 31 May 2026 09:00 UTC"]),
        (
            "every 2 days at 2:30",
            "Europe/Berlin",
            "2026-03-27T12:00",
            ["Sat 28 Mar 2026 02:30 CET", "Mon 30 Mar 2026 02:30 CEST"],
        ),
        ("in 3 hours", "Europe/Berlin", "2026-03-29T00:30", ["Sun 29 Mar 2026 04:30 CEST"]),
        ("every 6 hours", "Europe/Berlin", "2026-10-24T20:00", ["Sun 25 Oct 2026 01:00 CET", "Sun 25 Oct 2026 07:00 CET"]),
    ],
)
def test_times_over_changes_of_the_clocks_and_leap_days(text: str, zone: str, since: str, expected: list[str]) -> None:
    now = datetime.fromisoformat(since).replace(tzinfo=ZoneInfo(zone)).timestamp()
    if text == "every 6 hours":  # elapsed time: in the night that is an hour longer, the clocks show an hour less
        expected = ["Sun 25 Oct 2026 02:00 CEST", "Sun 25 Oct 2026 07:00 CET"]
    schedule = read(text, zone, now=now).begun(now)
    assert [time_words(at, zone) for at in schedule.times(now, len(expected))] == expected


@given(seconds=st.integers(1, 10**6), anchor=st.integers(0, 2 * 10**9), ahead=st.floats(0, 10**7))
def test_intervals_are_elapsed_time(seconds: int, anchor: int, ahead: float) -> None:
    schedule = Schedule("every", "Europe/Berlin", at=float(anchor), seconds=seconds)
    now = anchor + ahead
    at = schedule.after(now)
    assert at is not None
    assert now < at <= now + seconds
    assert (at - anchor) % seconds == 0
    assert schedule.latest(at, anchor) == at


@settings(max_examples=60, deadline=None)
@given(zone=st.sampled_from(ZONES), day=st.sampled_from(CHANGES), days=st.integers(2, 40), minute=st.integers(0, 1439))
def test_every_few_days_each_of_them_has_its_time(zone: str, day: float, days: int, minute: int) -> None:
    schedule = read(f"every {days} days at {minute // 60}:{minute % 60:02}", zone, now=day)
    times = schedule.times(day, 5)
    dates = [datetime.fromtimestamp(at, ZoneInfo(zone)).date().toordinal() for at in times]
    gone = zone == "Pacific/Apia"  # a time on the skipped day is that of the beginning of the next day
    assert all(later - one == days or (gone and abs(later - one - days) <= 1) for one, later in itertools.pairwise(dates))
    for at, later in itertools.pairwise(times):
        assert schedule.latest((at + later) / 2, times[0]) == at
        assert schedule.after(at - 1) == at


def test_what_was_stored_comes_back() -> None:
    for text in ("in 20 minutes", "every day at 9 and 17:30", "every 3 days at 8", "every 2 hours", "2030-01-01 10:00"):
        for schedule in (read(text, "UTC", now=1e9), read(text, "UTC", now=1e9).begun(1e9)):
            assert Schedule.from_json(schedule.to_json()) == schedule


def test_a_year_of_minutes_costs_little() -> None:
    schedule = read("0 0 29 2 *", "Europe/Berlin", now=0)
    now = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    assert time_words(schedule.latest(now, 0), "Europe/Berlin") == "Thu 29 Feb 2024 00:00 CET"


def test_an_interval_whose_beginning_lies_ahead_waits_no_longer_than_itself() -> None:
    """The machine's clock was set back after the interval began."""
    schedule = read("every 2 hours", "UTC", now=1e9).begun(1e9)
    assert schedule.after(1e9 - 94_000) == 1e9 - 13 * 7_200


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("59,0 0,23 28,1 * *", 60),  # 28 February at 23:59 and 1 March at 0:00, a year ahead
        ("0 0,12 * * *", 12 * 3_600),
        ("30 22,1 * * mon", 21 * 3_600),
        ("0 1,22 * * mon,tue", 3 * 3_600),
        ("0 12 29 2 *", 4 * 365 * 86_400 + 86_400),
        ("every 2 days at 0:05 and 23:50", 85_500),
        ("every 3 days at 8", 3 * 86_400),
        ("*/30 9-16 * * 1-5", 1_800),
        ("every 90 seconds", 90),
    ],
)
def test_the_shortest_distance_is_that_of_all_times(text: str, seconds: int) -> None:
    now = datetime(2026, 3, 2, tzinfo=UTC).timestamp()
    assert read(text, "UTC", now=now).begun(now).shortest(now) == seconds
