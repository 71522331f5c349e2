"""Lists of paths that programs read from a file or from their input: ``tar -T list``, ``rsync --files-from=-``, ``cpio``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from tools.judge.meaning.act import Act
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.options import read
from tools.judge.paths import spelled

_OPTIONS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        **dict.fromkeys(("tar", "gtar", "bsdtar"), frozenset({"-T", "--files-from"})),
        **dict.fromkeys(("rsync", "rclone", "restic"), frozenset({"--files-from", "--files-from-raw", "--files-from-verbatim"})),
        **dict.fromkeys(("sort", "gsort"), frozenset({"--files0-from"})),
        "git": frozenset({"--pathspec-from-file"}),
        "borg": frozenset({"--patterns-from"}),
    }
)
_WORDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {"zip": frozenset({"-@"}), "git": frozenset({"--stdin-paths", "--stdin"}), "borg": frozenset({"--paths-from-stdin"})}
)
"""Words that make a program read a list from its input."""
_INPUT = frozenset({"cpio", "pax", "afio"})
"""Programs that always read a list from their input."""
_AT = frozenset({"7z", "7za", "7zz", "rar", "zip"})
"""Programs that read a list named by ``@list`` and ``-i@list``."""
_MOST = 2_000


def lists_of(act: Act) -> Sequence[Value]:
    """Return the files that hold the command's lists; ``-`` for its input."""
    name = act.name
    found: list[Value] = []
    if name in _INPUT or (name in _WORDS and not _WORDS[name].isdisjoint(act.words())):
        found.append(Value("-"))
    if name in _OPTIONS:
        program = "tar" if name in ("gtar", "bsdtar") else name
        options = read([value.text for value in act.argv], program, _OPTIONS[name]).options
        given = (one for one in options if one.name in _OPTIONS[name] and one.value is not None)
        found += [act.argv[one.value_at]._replace(text=one.value or "") for one in given]
    if name in _AT:
        found += [
            one._replace(text=one.text.partition("@")[2]) for one in act.argv[1:] if one.text[:1] == "@" or one.text[:3] == "-i@"
        ]
    return [one for one in found if one.text]


def listed_in(act: Act, home: str, inspect_path: Callable[[str], Seen]) -> Iterator[Value]:
    """Yield the known paths in the command's lists."""
    for one in lists_of(act):
        texts = [act.read().text] if one.text == "-" else []
        if one.text != "-" and HOLE not in one.text:
            texts = [inspect_path(path).text or "" for path in spelled(one, act.cwds, home)]
        for text in texts:
            lines = [line.strip() for line in text.replace("\0", "\n").split("\n")]
            for line in list(dict.fromkeys(lines))[:_MOST]:
                if line and HOLE not in line:
                    yield Value(line, Taint.FOUND)
