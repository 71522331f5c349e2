"""Redirects: a command's input, and the destination of its output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from toolcrib.contract.dataclass import dataclass
from tools.judge.meaning import descriptors, expand, filestate
from tools.judge.meaning.act import RedirectTarget
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import EMPTY, Taint, Value, either, joined, listed, unknown
from tools.judge.meaning.walk import Walker
from tools.judge.shell.tree import ProcessSub, Redirect, Script, Word


@dataclass(slots=True)
class Streams:
    """The streams of a command after its redirects.

    ``diverted``: output goes to ``path`` (operator, path) or ``process``; if both are None, the output is not followed (``>&2``).
    ``doubtful``: the destination of the output is unknown.
    """

    targets: list[RedirectTarget] = field(default_factory=list)
    stdin: Value | None = None
    diverted: bool = False
    path: tuple[str, Value] | None = None
    process: Script | None = None
    doubtful: bool = False
    opened: dict[str, Value] = field(default_factory=dict)
    produced: list[Value] = field(default_factory=list)
    """All output that was written to a file, in any branch."""


PLAIN = Streams()


def opened(it: Walker, state: State, redirects: Sequence[Redirect]) -> Streams:
    if not redirects:
        return PLAIN
    found = Streams()
    for one in redirects:
        if one.op in ("<", "<>", "<<", "<<-", "<<<", "<&"):
            _input(it, state, one, found)
        else:
            _output(it, state, one, found)
    return found


def _number(it: Walker, state: State, one: Redirect, default: int) -> int:
    if isinstance(one.fd, str):
        name = one.fd.strip("{}")
        it.assign_name(state, name, Value("10"))
        return 10
    return default if one.fd is None else one.fd


def _file(it: Walker, state: State, word: Word) -> Value:
    """Return a redirect's target. Patterns are expanded as in an argument, but the shell refuses several words."""
    found = expand.fields(it, state, [word])
    return Value(*found[0]) if len(found) == 1 else listed(found, " ")


def _input(it: Walker, state: State, one: Redirect, found: Streams) -> None:
    fd = _number(it, state, one, 0)
    value: Value | None
    if one.op in ("<", "<>"):
        path = _file(it, state, one.target)
        found.targets.append(RedirectTarget("<" if one.op == "<" else "<>", path, fd))
        value = filestate.content(it, state, path)
        value = value._replace() if value is not None else unknown()  # a new object: this file is read from its start
        if one.op == "<>" and fd not in (0, 1):
            found.opened[f"{fd}>"] = path
    elif one.op == "<&":
        text = expand.single(it, state, one.target).text
        if text.startswith("-") or (text == "0" and (fd == 0 or state.stdin is None)):
            return
        value = state.stdin if text == "0" else found.opened.get(text.rstrip("-"), state.fds.get(text.rstrip("-")))
        if value is None and text.rstrip("-") not in ("1", "2"):
            value = unknown()
        if value is None:
            return
    else:
        value = expand.single(it, state, one.target)
        if one.op == "<<<":
            value = value._replace(text=value.text + "\n", shown="")
    if fd == 0:
        found.stdin = value
    else:
        found.opened[str(fd)] = value


def _output(it: Walker, state: State, one: Redirect, found: Streams) -> None:
    op = one.op
    fd = _number(it, state, one, 1)
    parts = one.target.parts
    if len(parts) == 1 and isinstance(parts[0], ProcessSub) and parts[0].direction == ">":
        if fd == 1 or op.startswith("&"):
            found.diverted, found.process = True, parts[0].body
        else:
            it.process(parts[0], state)
        return
    path = _file(it, state, one.target)
    if op == ">&":
        text = path.text.rstrip("-")
        if text.isdigit() or not text:
            if len(text) > 1 and f"{text}>" not in state.fds and f"{text}>" not in found.opened:
                it.fault("opaque", "it writes to a descriptor that it did not open, which may be one of the shell's own")
            _duplicated(state, fd, text, found)
            return
        op = "&>"
    found.targets.append(RedirectTarget(op, path, fd))
    if fd == 1 or op.startswith("&"):
        found.diverted, found.path, found.process = True, (op, path), None
    elif fd > 2:
        found.opened[f"{fd}>"] = path
        if op != ">>":
            filestate.write(it, state, path, EMPTY, append=False)
    elif fd == 2:
        filestate.write(it, state, path, unknown(), append=op == ">>")


def _duplicated(state: State, fd: int, text: str, found: Streams) -> None:
    """Record the destination of the output after ``>&N``."""
    if fd != 1 or text == "1":
        return
    if text == "2" or not text:
        found.diverted, found.path, found.process = True, None, None
    elif f"{text}>" in state.fds or f"{text}>" in found.opened:
        path = state.fds.get(f"{text}>") or found.opened[f"{text}>"]
        found.diverted, found.path = True, (">>", path)
    else:
        found.doubtful = True


def through(it: Walker, state: State, streams: Streams, run: Callable[[State], list[State]]) -> list[State]:
    """Call ``run`` with the streams of the command, and restore the old ones after it."""
    if streams is PLAIN or (streams.stdin is None and not streams.diverted and not streams.opened and not streams.doubtful):
        return run(state)
    stdin, out, capture, fds = state.stdin, state.out, state.capture, state.fds
    if streams.stdin is not None:
        state.stdin = streams.stdin
    if streams.opened:
        state.fds = {**fds, **streams.opened}
    if streams.diverted or streams.doubtful:
        state.out, state.capture = None, True
    results = run(state)
    for one in results:
        if streams.stdin is not None:
            one.stdin = descriptors.given_back(stdin, fds, one.fds)
        if streams.opened:
            one.fds = descriptors.closed(fds, one.fds, streams.opened)
        if streams.diverted or streams.doubtful:
            produced = one.printed()
            one.out, one.capture = out, capture
            _deliver(it, one, streams, produced)
    return results


def _deliver(it: Walker, state: State, streams: Streams, produced: Value) -> None:
    if streams.doubtful and not streams.diverted:
        if produced.text:
            state.emit(either(EMPTY, produced))
    elif streams.process is not None:
        child = state.copy()
        child.stdin, child.out = produced, None
        ends = it.nested(streams.process, child)
        state.files = ends[0].files
        if state.capture:
            state.emit(ends[0].printed())
    elif streams.path is not None:
        op, path = streams.path
        streams.produced.append(produced)
        filestate.write(it, state, path, produced, append=op.endswith(">>"))


def kept(it: Walker, state: State, streams: Streams) -> None:
    """Apply the redirects of ``exec`` without a command to the shell itself, for all later commands."""
    if streams.stdin is not None:
        state.stdin = streams.stdin
    state.fds = {**state.fds, **streams.opened}
    if streams.path is not None:
        filestate.write(it, state, streams.path[1], unknown(), append=True)
    if streams.process is not None:
        child = state.copy()
        child.stdin, child.out = joined([unknown(Taint.NONE)]), None
        it.nested(streams.process, child)
