"""Links: the targets of a path, through links that the command makes earlier and through existing ones."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence

from tools.judge.folders import above, under
from tools.judge.meaning.value import HOLE

_MOST = 8
"""Maximum number of links to follow in a chain."""

_NO_FILES = ("/dev/", "/proc/")
_PATTERN = ("*", "?", "[", "{", HOLE)


class Links:
    """The links that a command may follow. ``look`` returns the target of an absolute path that may not exist, with all links
    followed; None if existing links are unknown.

    ``made``: the links that the command creates, with their targets. ``unsure``: folders that may get more links. ``moved``: the
    paths that it moves or copies to, with their sources. ``arrived``: all paths where files may appear. ``late`` returns whether
    an absolute path may become a link through an earlier command that still runs.
    """

    def __init__(
        self,
        look: Callable[[str], str] | None = None,
        made: Iterable[tuple[str, str]] = (),
        unsure: Sequence[str] = (),
        moved: Mapping[str, str] | None = None,
        arrived: Sequence[str] = (),
        late: Callable[[str], bool] | None = None,
    ) -> None:
        self._late = late
        self._look = look
        self._arrived = arrived
        self._unsure = unsure
        self._moved = {_normal(at): _normal(there) for at, there in (moved or {}).items() if there}
        self._made: dict[str, list[str]] = {}
        for at, target in made:
            self._made.setdefault(_normal(at), []).append(_normal(target))

    def are_sure(self, path: str) -> bool:
        """Return whether the parent folders of an absolute path are certain to be the same when the command uses it."""
        if not (self._late or self._made or self._unsure):
            return True
        around = above(path)
        if (self._late is not None and self._late(path)) or (self._made and self._through(around) != [around]):
            return False
        return not any(around != folder and under(around, folder) for folder in self._unsure)

    def leads_to_itself(self, path: str) -> bool:
        """Return whether no link, move or copy of the command may change which file an absolute path names."""
        if self._through(path) != [path] or any(under(path, folder) for folder in self._unsure):
            return False
        return not any(HOLE in at or under(path, at) for at in self._arrived)

    def moved(self, path: str) -> Sequence[str]:
        """Return the targets of an absolute path through links, moves and copies that the command makes earlier."""
        found = self._through(path)[1:] if self._made else []
        if self._moved and (before := self._before(path)) != path and (there := self._there(before)) != before:
            found.append(there)  # a link, or a path behind one, that has another name now
        return found

    def real(self, path: str) -> Sequence[str]:
        """Return the other paths that an absolute path or pattern may lead to."""
        if (self._look is None and not self._made and not self._moved) or path[:1] != "/" or path.startswith(_NO_FILES):
            return ()
        found: list[str] = []
        for one in (path, *self.moved(path)):
            found += [one] if one != path else []
            if self._look is not None and (there := self._there(one)) != one:
                found.append(there)
        return found

    def _through(self, path: str) -> list[str]:
        """Return ``path`` and its possible targets by links that the command creates."""
        found = [path]
        for one in found:
            at = one
            while at not in self._made and at != (around := above(at)):
                at = around
            targets = (_normal(target + one[len(at) :]) for target in self._made.get(at, ()))
            found += [there for there in targets if there not in found and len(found) <= _MOST]
        return found

    def _before(self, path: str) -> str:
        """Return the name that a path had before the command moved or copied it."""
        for _ in range(_MOST):
            at = path
            while at not in self._moved and at != (around := above(at)):
                at = around
            source = self._moved.get(at)
            if source is None or source == at:
                break
            path = _normal(source + path[len(at) :])
        return path

    def _there(self, path: str) -> str:
        parts = path.split("/")
        known = next((at for at, part in enumerate(parts) if any(mark in part for mark in _PATTERN)), len(parts))
        head = "/".join(parts[:known])
        if self._look is None or not head:
            return path
        there = _normal("/".join([self._look(head), *parts[known:]]))
        return there if known == len(parts) or HOLE in there else self._look(there)


def _normal(path: str) -> str:
    path = posixpath.normpath(path)
    return path[1:] if path.startswith("//") else path
