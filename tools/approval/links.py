"""Links: what a path leads to, by what the command itself linked before, and by what is there already."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

from tools.approval.meaning.act import Act
from tools.approval.meaning.value import HOLE

_LINKERS = frozenset({"ln", "gln", "link"})
_MOST = 8
"""Links behind links that are followed."""

_PATTERN = ("*", "?", "[", "{", HOLE)


class Links:
    """``look`` gives what the absolute path of a file that may not exist leads to, all links followed; None: unknown."""

    def __init__(self, look: Callable[[str], str] | None = None) -> None:
        self._look = look
        self._made: dict[str, str] = {}

    def note(self, act: Act) -> None:
        """Remembers what ``ln`` (also ``os.symlink`` and the like) and ``cp -s`` link."""
        options = [text for text in act.words() if text[:1] == "-" and len(text) > 1]
        soft = any("s" in text.partition("=")[0] for text in options)
        if act.name not in _LINKERS and not (
            act.name == "cp" and any(text in ("-s", "-l", "--symbolic-link") for text in options)
        ):
            return
        names = [text for text in act.words() if text and text not in options]
        if not names:
            return
        sources, last = (names[:-1], names[-1]) if len(names) > 1 else (names, ".")
        for cwd in act.cwds:
            for source in sources:
                for link in (last, f"{last}/{posixpath.basename(source.rstrip('/'))}"):
                    at = _normal(posixpath.join(cwd, link))
                    base = posixpath.dirname(at) if soft else cwd
                    self._made[at] = _normal(posixpath.join(base, source))

    def real(self, path: str) -> Sequence[str]:
        """Return the paths that an absolute path or pattern may lead to besides itself."""
        if path[:1] != "/" or path.startswith(("/dev/", "/proc/")):
            return ()
        found: list[str] = []
        for one in (path, self._through(path)) if self._made else (path,):
            found += [one] if one != path else []
            if self._look is not None and (there := self._there(one)) != one:
                found.append(there)
        return found

    def _through(self, path: str) -> str:
        for _ in range(_MOST):
            at = path
            while at not in self._made and at != (above := posixpath.dirname(at)):
                at = above
            target = self._made.get(at)
            if target is None or target == at:
                break
            path = _normal(target + path[len(at) :])
        return path

    def _there(self, path: str) -> str:
        parts = path.split("/")
        known = next((at for at, part in enumerate(parts) if any(mark in part for mark in _PATTERN)), len(parts))
        head = "/".join(parts[:known])
        if self._look is None or not head:
            return path
        return _normal("/".join([self._look(head), *parts[known:]]))


def _normal(path: str) -> str:
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path
