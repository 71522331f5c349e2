"""Processes over there, as bash finds them in /proc without starting one, and how they are told to end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tools.environments._groups import Member, Moment

_LIST = r"""
printf '%s %s\n' "$(</proc/uptime)" "$(</proc/loadavg)"
for _f in /proc/[0-9]*/stat; do
  _l=; IFS= read -rd '' _l <"$_f"
  set -- ${_l##*) }
  case " SESSIONS " in *" $4 "*) _c=${_l#*(}; printf '%s %s %s %s %s\n' "${_l%% *}" "${20}" "$1" "$2" "${_c%) *}" ;; esac
done 2>/dev/null
"""
_YOUNG = 3
"""Clock ticks between a fork and its exec, generously."""
_TICKS = 100
"""A second, in /proc, on every Linux."""


@dataclass(frozen=True, slots=True)
class Seen:
    """``parents`` by process. ``changing``: who has a child that has ended and was not yet waited for, or one so young that it
    may not yet be what it is to be.
    """

    now: Moment
    members: list[Member]
    parents: dict[int, int]
    changing: set[int]


def listing(sessions: Iterable[int]) -> str:
    """A script that prints what ``read`` takes."""
    return _LIST.replace("SESSIONS", " ".join(str(each) for each in sessions))


def read(said: bytes) -> Seen:
    first, *lines = said.decode("ascii", "replace").splitlines() or [""]
    found = [words for line in lines if len(words := line.split(" ", 4)) == 5 and words[1].isdigit()]
    now = moment(first)
    living = [Member(int(each[0]), int(each[1])) for each in found if each[2] not in ("Z", "X")]
    parents = {int(each[0]): int(each[3]) for each in found}
    young = {int(each[3]) for each in found if each[2] == "Z" or (each[4] == "bash" and int(each[1]) >= now.tick - _YOUNG)}
    return Seen(now, living, parents, young)


def moment(text: str) -> Moment:
    """From what /proc/uptime and /proc/loadavg say."""
    words = text.split()
    try:
        return Moment(round(float(words[0]) * _TICKS), int(words[-1]))
    except (ValueError, IndexError):
        return Moment(0, 0)


def freeze(group: int) -> str:
    """Nothing there forks or ends while we look."""
    return f"kill -STOP -- -{group} 2>/dev/null\n"


def thaw(group: int) -> str:
    """All of it at once: where its leader ended while others are still stopped, the kernel would hang up on these."""
    return f"kill -CONT -- -{group} 2>/dev/null\n"


def signal(number: int, pids: Iterable[int], group: int = 0) -> str:
    """A stopped process receives nothing before it goes on. ``group`` is one that was frozen."""
    targets = " ".join(str(pid) for pid in pids)
    told, going = (f"for _p in {targets}; do kill -{each} $_p; done 2>/dev/null\n" for each in (number, "CONT"))
    return told + (thaw(group) if group else "") + going
