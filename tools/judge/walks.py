"""Files that find and similar programs list or pass to commands: files of whole folders, not named one by one."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.finds import FINDERS
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import HOLE, Value, plain
from tools.judge.paths import spelled

_FILTERS = frozenset({"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename"})


class Walk(NamedTuple):
    """A walk through folders.

    ``starts`` are absolute. A file matches if ``names`` is empty, or if one of its patterns matches.
    """

    starts: Sequence[str]
    names: Sequence[Value]


def walk(act: Act, home: str = "") -> Walk:
    """Read a finder's arguments: its folders, and the names that it searches for."""
    fd = act.name.startswith("fd")
    given = list(act.argv[1:])
    starts: list[Value] = []
    names: list[Value] = []
    for at, value in enumerate(given):
        before = given[at - 1].text if at else ""
        if value.text in ("-exec", "-execdir", "-x", "-X", "--exec", "--exec-batch", "-ok"):
            break
        if before in _FILTERS and (at < 2 or given[at - 2].text not in ("!", "-not")):
            names.append(value)
        elif before in ("-maxdepth", "--max-depth", "-d") and value.text.isdigit():
            continue
        elif value.text[:1] not in ("-", "(", "!", "\\") and (fd or not any(one.text[:1] == "-" for one in given[:at])):
            starts.append(value)
    if fd:  # the first operand is a pattern, the others are folders
        starts = starts[1:]
    places = [path for one in starts or [Value(".")] for path in spelled(one, act.cwds, home)]
    return Walk(places, names)


_TAKES_WORD = frozenset(
    "-newer -anewer -cnewer -samefile -type -xtype -size -mtime -atime -ctime -mmin -amin -cmin -user -group -uid -gid -perm"
    " -links -inum -fstype -lname -ilname -regex -iregex -iname -ipath -iwholename -used -context -D -files0-from -regextype"
    " -maxdepth -mindepth".split()
)
"""Words of find that take the next word, except those in ``_SAYS_NAME``."""
_SAYS_NAME = frozenset({"-name", "-path", "-wholename"})
_ACTIONS = ("-exec", "-ok", "-print", "-fprint", "-fls", "-ls", "-delete", "-prune", "-quit")
_NOT = frozenset({"!", "-not"})
_WILD = Regex(r"\\.|\[[^\]]*\]|[*?]")


def listed(act: Act, home: str = "") -> list[str]:
    """Return the files that a program may list or pass on, as absolute paths with a HOLE for any text."""
    if act.name in FINDERS:
        starts = walk(act, home).starts
        names = _wanted(act) if not act.name.startswith("fd") else [HOLE]
        return [f"{start.rstrip('/')}/{plain(HOLE + name)}" for start in starts for name in names]
    if act.name.endswith("locate"):
        return [f"/{plain(HOLE + _WILD.sub(HOLE, value.text) + HOLE)}" for value in act.argv[1:] if value.text[:1] != "-"]
    found: list[str] = []
    for value in act.argv[1:]:
        if value.text[:1] != "-" and (value.pattern or act.name == "compgen"):
            found += [plain(_WILD.sub(HOLE, path)) for path in spelled(value, act.cwds, home)]
        elif value.text[:1] != "-":
            found += [one for path in spelled(value, act.cwds, home) for one in (path, f"{path.rstrip('/')}/{HOLE}")]
    return [*found, *(f"{cwd.rstrip('/')}/{HOLE}" for cwd in act.cwds)]


def _wanted(act: Act) -> list[str]:
    """Return patterns for the names of the files that find passes on; HOLE if they may have any name."""
    names: list[str] = []
    sure = False
    words = iter([value.text for value in act.argv[1:]])
    denied = False
    for word in words:
        if word.startswith(_ACTIONS):
            break
        if word in _TAKES_WORD:
            next(words, "")
        elif word in _SAYS_NAME:
            name = next(words, HOLE)
            if not denied:
                names.append(_WILD.sub(HOLE, name if word == "-name" else f"{HOLE}{name}"))
                sure = True
        elif word in ("-o", "-or", ","):
            if not sure:
                return [HOLE]
            sure = False
        elif word in ("(", "\\(") and denied:
            return [HOLE]
        denied = word in _NOT
    return names if sure and names else [HOLE]
