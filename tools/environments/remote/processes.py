"""Processes on the far side: list them with bash and /proc without starting one, and signal them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolcrib.contract.namedtuple import NamedTuple
from tools.environments._groups import Member, Moment

_LIST = r"""
printf '%s %s\n' "$(</proc/uptime)" "$(</proc/loadavg)"
for _f in /proc/[0-9]*/stat; do
  _l=; IFS= read -rd '' _l <"$_f"
  case $_l in PATTERN) set -- ${_l##*) } ;; *) continue ;; esac
  case " SESSIONS " in *" $4 "*) ;; *) continue ;; esac
  _p=${_l%% *} _c=${_l#*(} _a=
  set -- "${20}" "$1" "$2" "${31}"
  for _t in "/proc/$_p/task/"*/schedstat; do read -r _b _w _n <"$_t" && _a=$_a,$_b/$_n; done
  printf '%s %s %s %s %s %s %s\n' "$_p" "$@" "$_a," "${_c%) *}"
done 2>/dev/null
"""
_YOUNG = 3
"""Maximum clock ticks between a fork and its exec, generously estimated."""
_TICKS = 100
"""Clock ticks per second in /proc, on every Linux."""


class Doing(NamedTuple):
    """Activity of a living process. ``ran``: how long and how often each thread ran, "" if the kernel does not count."""

    state: str
    ignored: int
    ran: str

    def ignores(self, number: int) -> bool:
        """Return True if the process ignores the signal."""
        return bool(self.ignored >> (number - 1) & 1)

    @property
    def times(self) -> int:
        """The number of times that its threads ran."""
        return sum(int(each.partition("/")[2]) for each in self.ran.split(",") if each.partition("/")[2].isdigit())

    @property
    def waits(self) -> bool:
        """True if the process waits. If two readings are equal, it also waited in between."""
        return self.state in ("S", "T") and self.ran != ""


@dataclass(frozen=True, slots=True)
class ProcessScan:
    """The processes in a listing. ``parents`` and ``doing`` are by process id.

    ``changing``: processes with an unreaped child, or a child so young that it may not have executed its program yet. ``unborn``:
    those young children.
    """

    now: Moment
    members: list[Member]
    parents: dict[int, int]
    changing: set[int]
    unborn: set[int]
    doing: dict[int, Doing]


def listing(sessions: Iterable[int]) -> str:
    """Return a script whose output ``read`` parses. It lists no processes of session 0, which is that of no command."""
    names = [str(each) for each in sessions if each > 1] or ["-"]
    # Most processes of a machine belong to others: skip them without splitting the line.
    pattern = "|".join(f'*" {name} "*' for name in names)
    return _LIST.replace("PATTERN", pattern).replace("SESSIONS", " ".join(names))


def read(said: bytes) -> ProcessScan:
    """Parse the output of ``listing``."""
    first, *lines = said.decode("ascii", "replace").splitlines() or [""]
    found = [words for line in lines if len(words := line.split(" ", 6)) == 7 and words[1].isdigit()]
    now = moment(first)
    living = [Member(int(each[0]), int(each[1])) for each in found if each[2] not in ("Z", "X")]
    parents = {int(each[0]): int(each[3]) for each in found}
    unborn = {int(each[0]) for each in found if each[6] == "bash" and int(each[1]) >= now.tick - _YOUNG}
    changing = {int(each[3]) for each in found if each[2] in ("Z", "X") or int(each[0]) in unborn}
    doing = {int(each[0]): Doing(each[2], int(each[4]), _ran(each[5])) for each in found if each[4].isdigit()}
    return ProcessScan(now, living, parents, changing, unborn, doing)


def _ran(text: str) -> str:
    """Return the counts, or "" if the kernel does not count, which it shows as 0 times."""
    return "" if text == "," or "/0," in text else text


def moment(text: str) -> Moment:
    """Return the moment that /proc/uptime and /proc/loadavg show."""
    words = text.split()
    try:
        return Moment(round(float(words[0]) * _TICKS), int(words[-1]))
    except (ValueError, IndexError):
        return Moment(0, 0)


def freeze(group: int) -> str:
    """Return the script that stops a process group, so that no member forks or ends while it is listed."""
    return f"kill -STOP -- -{group} 2>/dev/null\n"


def thaw(group: int) -> str:
    """Return the script that continues a stopped group. If the leader ends first, the kernel sends SIGHUP to stopped members."""
    return f"kill -CONT -- -{group} 2>/dev/null\n"


def signal(number: int, pids: Iterable[int]) -> str:
    """Return the script that signals the processes and continues them, because a stopped process does not handle a signal."""
    return signals(dict.fromkeys(pids, number))


def signals(numbers: Mapping[int, int], group: int = 0) -> str:
    """Return the script that sends each process its signal. ``group``: a frozen group to continue."""
    told = "".join(f"kill -{number} {pid}\n" for pid, number in numbers.items())
    going = f"for _p in {' '.join(map(str, numbers))}; do kill -CONT $_p; done\n"
    return f"{{ :\n{told}{thaw(group) if group else ''}{going}}} 2>/dev/null\n"
