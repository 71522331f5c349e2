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
  case " SESSIONS " in *" $4 "*) case $1 in [ZX]) ;; *) printf '%s %s %s %s\n' "${_l%% *}" "${20}" "$4" "$1" ;; esac ;; esac
done 2>/dev/null
"""
_TICKS = 100
"""A second, in /proc, on every Linux."""


@dataclass(frozen=True, slots=True)
class Seen:
    now: Moment
    members: list[Member]


def listing(sessions: Iterable[int]) -> str:
    """A script that prints what ``read`` takes."""
    return _LIST.replace("SESSIONS", " ".join(str(each) for each in sessions))


def read(said: bytes) -> Seen:
    first, *lines = said.decode("ascii", "replace").splitlines() or [""]
    found = [line.split() for line in lines]
    return Seen(moment(first), [Member(int(each[0]), int(each[1])) for each in found if len(each) == 4 and each[1].isdigit()])


def moment(text: str) -> Moment:
    """From what /proc/uptime and /proc/loadavg say."""
    words = text.split()
    try:
        return Moment(int(float(words[0]) * _TICKS), int(words[-1]))
    except (ValueError, IndexError):
        return Moment(0, 0)


def signal(number: int, pids: Iterable[int]) -> str:
    """A stopped process receives nothing before it goes on."""
    targets = " ".join(str(pid) for pid in pids)
    return f"for _p in {targets}; do kill -{number} $_p; kill -CONT $_p; done 2>/dev/null"
