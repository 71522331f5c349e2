"""toolcrib's own code in Python source: what only a person may use is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from toolcrib.contract.regex import Regex
from tools.judge.languages._tell import Tell
from tools.judge.meaning.value import HOLE

MENTIONS = Regex(r"\b(?:agent|toolcrib|model_tools|tools)\b")
"""Source without any of these words, as they stand, imports none of it by a statement."""

_TOPS = frozenset({"agent", "model_tools"})
_CLOSED = Regex(r"toolcrib\.(?:Agent|\*|_(?!_)\w*)(?:\.|$)|tools\.approval(?:\.|$)")
"""In the contract's package, but not the contract; plugins and their tests have no use for it."""


class OwnCode:
    """Reports ``@own-code NAME WHERE`` for what is imported; see the package. ``in_file``: the source was not written with the
    command, but lies in a file.
    """

    def __init__(self, tell: Tell, in_file: bool) -> None:
        self.in_file = in_file
        self._tell = tell
        self._imported: set[str] = set()

    def statements(self, tree: ast.Module) -> None:
        """Report every import statement, also where it isn't known whether it is reached."""
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.imported(alias.name)
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                self.imported(node.module)
                for alias in node.names:
                    self.attribute(node.module, alias.name)

    def imported(self, name: str) -> None:
        top = name.partition(".")[0]
        self._imported.update(_prefixes(name))
        if top in _TOPS or _CLOSED.match(name):
            self._report(name, top)

    def attribute(self, owner: str, name: str) -> None:
        """``owner.name``, where that is an imported module; a variable of that name is none."""
        if owner not in self._imported or HOLE in name or (name[:2] == "__" and name[-2:] == "__"):
            return
        full = f"{owner}.{name}"
        if _CLOSED.match(full) or (owner == "agent" and name != "*"):
            self._report(full, owner.partition(".")[0])

    def _report(self, name: str, top: str) -> None:
        look = self._tell.sink.look
        module = look(f"{top}.py").kind == "file"
        if top != name or not module:
            beside = top in _TOPS and (module or look(f"{top}/__init__.py").kind == "file")
            self._tell.words("@own-code", name, "beside" if beside else "file" if self.in_file else "here")


def _prefixes(name: str) -> Iterator[str]:
    at = len(name)
    while at > 0:
        yield name[:at]
        at = name.rfind(".", 0, at)
