"""Fixtures with a sink that records effects: ``read_language``, ``effects``, ``recorder``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tools.approval.explain import Judge
from tools.judge.languages import read
from tools.judge.meaning.act import Code, RedirectTarget
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.setting import Setting


class Recorder:
    """A sink. ``said``: tuples of the recorded effects, HOLEs as ``?``; ``taints`` the joined taints of each one's values."""

    def __init__(self, files: Mapping[str, Seen] | None = None) -> None:
        self.said: list[tuple[str, ...]] = []
        self.taints: list[Taint] = []
        self.files = dict(files or {})

    def _add(self, *words: str, taint: Taint) -> None:
        self.said.append(tuple(word.replace(HOLE, "?") for word in words))
        self.taints.append(taint)

    def run(self, argv: Sequence[Value], redirects: Sequence[RedirectTarget] = (), stdin: Value | None = None) -> None:
        words = [value.text for value in argv]
        taint = Taint.NONE
        for value in (*argv, *([stdin] if stdin is not None else [])):
            taint |= value.taint
        for target in redirects:
            words += [target.op, target.path.text]
        if stdin is not None:
            words += ["<<<", stdin.text]
        self._add("run", *words, taint=taint)

    def shell(self, text: Value) -> None:
        self._add("shell", text.text, taint=text.taint)

    def code(self, code: Code) -> None:
        self._add("code", code.language, code.text.text, taint=code.text.taint)

    def inspect_path(self, path: str) -> Seen:
        return self.files.get(path, Seen("missing"))

    def effects(self) -> list[tuple[str, ...]]:
        """Return all effects except read files."""
        return [said for said in self.said if not (said[0] == "run" and len(said) == 3 and said[1] == "<")]


@pytest.fixture(scope="session")
def recorder() -> type[Recorder]:
    return Recorder


@pytest.fixture(scope="session")
def read_language() -> Callable[..., Recorder]:
    """Return a function that reads a source, which must be understood, and returns a Recorder of its effects."""

    def record_of(language: str, source: str, *args: str, files: Mapping[str, Seen] | None = None) -> Recorder:
        sink = Recorder(files)
        assert read(Code(language, Value(source)), [Value(arg) for arg in args], sink), (language, source)
        return sink

    return record_of


@pytest.fixture(scope="session")
def effects(read_language: Callable[..., Recorder]) -> Callable[..., list[tuple[str, ...]]]:
    """Return the same function for the list of effects."""
    return lambda language, source, *args: read_language(language, source, *args).effects()


@pytest.fixture(scope="session")
def asks() -> Callable[[str, str], list[str]]:
    """Return a function that judges an interpreter with a program, and returns the keys of the findings."""
    judge = Judge(Setting(home="/home/dev"))

    def found(interpreter: str, source: str) -> list[str]:
        command = f"{interpreter} <<'END'\n{source}\nEND"
        return [finding.key for finding in judge.examine(command, "/home/dev/project", files=False).findings]

    return found
