"""Differences that a call would make in files, worked out without writing: a person reads them before they agree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from toolcrib import DeletesFile, Effect, Environment, EnvironmentFailed, WritesFile
from toolcrib._dataclass import dataclass

MOST_CHARS = 400_000
"""Characters of the old and the new content of a file up to which they are compared."""
_MOST_PAIRS = 4_000_000
"""Pairs of lines up to which the least difference is looked for; beyond, all between the first and the last other line differ."""
_CONTEXT = 3
_STANDS_FOR: Mapping[str, frozenset[str]] = {
    "write_file": frozenset({"path", "content"}),
    "patch": frozenset({"path", "old", "new", "old_string", "new_string", "replace_all", "diff"}),
}
"""Arguments of our own tools of which a difference says all."""


@dataclass(frozen=True, slots=True)
class Differences:
    """``text`` is a unified diff of all files. ``stands_for``: arguments that need not be shown beside it.

    ``digests``: what the files held, by path. An answer binds them: it is about this difference.
    """

    text: str
    stands_for: frozenset[str]
    digests: Mapping[str, str]


async def differences(
    name: str, effects: Sequence[Effect], environment: Environment, redact: Callable[[str], str]
) -> Differences | None:
    """Return what the call of this tool would change in files that are there.

    None where it would make new files only, where one can't be compared (too long, no text, its new content not known), and
    where the text holds a secret in what the call writes: then the call is shown as it is.
    """
    texts, digests, is_new = [], {}, True
    if not effects:
        return None
    for effect in effects:
        if not isinstance(effect, WritesFile | DeletesFile):
            return None
        new = "" if isinstance(effect, DeletesFile) else effect.content
        old = await _held(environment, effect.path)
        if new is None or old is None or len(old) + len(new) > MOST_CHARS:
            return None
        digest = hashlib.sha256(old.encode("utf-8", "surrogatepass")).hexdigest()
        digests[f"difference:{effect.path}"] = digest
        is_new = is_new and not old
        texts.append(unified(effect.path, old, new))
    text = "".join(texts)
    shown = redact(text)
    if is_new or _added(shown) != _added(text):
        return None
    return Differences(shown, _STANDS_FOR.get(name, frozenset()), digests)


async def _held(environment: Environment, path: str) -> str | None:
    """Return the text of a file, "" where there is none, None where it can't be read as text."""
    try:
        data = await environment.read_file(path, limit=4 * MOST_CHARS + 4)
    except FileNotFoundError:
        return ""
    except (OSError, EnvironmentFailed):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _added(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("+")]


def unified(path: str, old: str, new: str) -> str:
    """Return the unified diff of a file's content; "" where nothing differs. Time is bounded by the lengths."""
    before, after = _lines(old), _lines(new)
    same = _alike(before, after)
    first = max(same - _CONTEXT, 0)
    ends = _alike(before[same:][::-1], after[same:][::-1])
    last = max(ends - _CONTEXT, 0)
    a, b = before[first : len(before) - last], after[first : len(after) - last]
    if before == after:
        return ""
    head = f"--- {path if old else '/dev/null'}\n+++ {path if new else '/dev/null'}\n"
    return head + "".join(line for hunk in _hunks(a, b) for line in _written(hunk, a, b, first))


def _lines(text: str) -> list[str]:
    """Split at line feeds alone, as files are."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """Count the lines at the beginning that both have."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


_Hunk = Sequence[tuple[str, int, int, int, int]]


def _hunks(a: Sequence[str], b: Sequence[str]) -> Iterator[_Hunk]:
    from difflib import SequenceMatcher

    if len(a) * len(b) <= _MOST_PAIRS:
        yield from SequenceMatcher(None, a, b).get_grouped_opcodes(_CONTEXT)
    else:
        yield [("replace", 0, len(a), 0, len(b))]


def _written(hunk: _Hunk, a: Sequence[str], b: Sequence[str], first: int) -> Iterator[str]:
    (_, a1, _, b1, _), (_, _, a2, _, b2) = hunk[0], hunk[-1]
    yield f"@@ -{first + a1 + bool(a2 - a1)},{a2 - a1} +{first + b1 + bool(b2 - b1)},{b2 - b1} @@\n"
    for kind, from_a, to_a, from_b, to_b in hunk:
        if kind == "equal":
            yield from (_ended(f" {line}") for line in a[from_a:to_a])
            continue
        yield from (_ended(f"-{line}") for line in a[from_a:to_a])
        yield from (_ended(f"+{line}") for line in b[from_b:to_b])


def _ended(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
