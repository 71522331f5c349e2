"""The entry point: makes the Meaning of a text for a shell with its files, even after an error."""

from __future__ import annotations

import functools
from collections.abc import Container, Iterator, Mapping

from tools.judge.budget import Budget
from tools.judge.folders import under
from tools.judge.meaning import journal, traps
from tools.judge.meaning.act import Fault, Meaning
from tools.judge.meaning.base import asks_for_last
from tools.judge.meaning.named_files import is_named, named
from tools.judge.meaning.run import Interpreter
from tools.judge.meaning.shellstate import State, Var
from tools.judge.meaning.state import ShellNow, Snapshot, knows_jobs
from tools.judge.meaning.value import Taint, Value, names, unknown
from tools.judge.meaning.walk import DETACHED, Stop
from tools.judge.readers import is_plain
from tools.judge.shell import ShellSyntaxError, ShellTooComplex, parse
from tools.judge.shell.tree import Script, Simple

_MOST_ELEMENTS = 1_000
"""Maximum number of elements in all arrays of the session's shell; if there are more, all are unknown."""


def interpreted(text: str, now: ShellNow, snapshot: Snapshot, budget: Budget, programs: Container[str]) -> Meaning:
    it = Interpreter(now, snapshot, budget, programs)
    made: dict[str, str] = {}
    rewrites: list[tuple[str, Taint]] = []
    try:
        script = parse(text, budget)
        it.context.text = text
        it.found.last = asks_for_last(text)
        it.context.background = it.context.spawned = int(now.background)
        it.context.outlasts = DETACHED if now.background else 0
        it.found.awaits = _ends_in_wait(it, script)
        first = _begin(now)
        if first.traps:
            ends = [end for begin in _signalled(it, first) for end in it.whole(script, begin)]
            _trapped(it, first, ends)
        else:
            ends = it.traps(it.whole(script, first))
        made = _made(now, ends)
        it.found.tainted.update(_secret(ends))
        if it.found.awaits and _is_waited_for(it, ends):
            it.found.jobs.clear()
        rewrites = [*_rewrites(it, ends, snapshot.of_jobs() if knows_jobs(snapshot) else {}), *_overtaken(it, ends)]
    except ShellSyntaxError as error:
        it.found.faults[Fault("syntax", str(error), getattr(error, "offset", 0))] = None
    except ShellTooComplex as error:
        it.found.faults[Fault(getattr(error, "kind", "depth"), str(error), getattr(error, "offset", 0) or 0)] = None
    except Stop as stop:
        it.found.faults[Fault(stop.kind, str(stop), it.span[0])] = None
    except RecursionError:
        it.found.faults[Fault("depth", "nested too deeply", it.span[0])] = None
    except Exception as error:  # noqa: BLE001  # a judge that fails must ask, never allow
        it.found.faults[Fault("opaque", f"{type(error).__name__}: {error}"[:200], it.span[0])] = None
    found = it.found
    for path, mark in found.jobs.items():
        found.tainted[path] = found.tainted.get(path, Taint.NONE) | mark
    left = (found.tainted, found.copies, tuple(found.links), tuple(found.lists), tuple(found.unsure), tuple(found.arrived), made)
    return Meaning(tuple(found.acts.values()), tuple(found.faults), tuple(found.read), *left, it.limits.steps, rewrites)


def _made(now: ShellNow, ends: list[State]) -> dict[str, str]:
    """Return the variables that hold a folder made by ``mktemp -d`` in every branch of the line, with their text."""
    found: dict[str, str] = {}
    names = {name for end in ends for name, var in end.vars.items() if var.value is not None and var.value.taint & Taint.MADE}
    for name in names | now.made:
        held = {_held(now, end, name) for end in ends}
        if len(held) == 1 and (text := held.pop()):
            found[name] = text
    return found


_SIGNALS = names("kill pkill killall")


def _ends_in_wait(it: Interpreter, script: Script) -> bool:
    last = script.items[-1].command if script.items and not script.items[-1].background else None
    words = it.constants(last) if isinstance(last, Simple) and not last.redirects else None
    return words is not None and [one.text for one in words] == ["wait"]


def _is_waited_for(it: Interpreter, ends: list[State]) -> bool:
    """Return whether the ``wait`` at the end is reached in any case, and nothing may keep its shell from waiting for all jobs."""
    if any(end.flow or end.traps or end.functions for end in ends):
        return False
    acts = (act for act in it.found.acts.values() if act.argv)
    beside = {act.name for act in acts if not act.background or act.name in _SIGNALS} - {"wait"}
    return all(map(is_plain, beside)) and not it.now.traps and "wait" not in it.now.functions and "wait" not in it.now.aliases


def _rewrites(it: Interpreter, ends: list[State], marks: Mapping[str, Taint]) -> Iterator[tuple[str, Taint]]:
    places = [*(new for new, _ in it.found.links), *it.found.unsure]
    written = named(it.found.acts.values()) if marks else ()
    for path, mark in marks.items():
        if mark & Taint.RUNNING and (_changes(ends, path) or is_named(path, written)):
            yield path, Taint.RUNNING
        elif mark & Taint.USED and any(under(path, new) for new in places):
            yield path, Taint.USED


def _overtaken(it: Interpreter, ends: list[State]) -> Iterator[tuple[str, Taint]]:
    """Yield the files that the line changes after a process that it starts may have begun to execute them."""
    for path, entry in it.found.running.items():
        if any(journal.find(end.files, path) != entry for end in ends if end.files):
            yield path, Taint.RUNNING


def _changes(ends: list[State], path: str) -> bool:
    return any(journal.find(end.files, path) or journal.perhaps_written(end.files, path) for end in ends if end.files)


def _secret(ends: list[State]) -> dict[str, Taint]:
    """Return the variables that may hold a secret at the end of the line. Each is stored like a tainted file, as ``$NAME``."""
    found = (name for end in ends for name, var in end.vars.items() if var.value is not None and var.value.taint & Taint.SECRET)
    return {f"${name}": Taint.SECRET for name in found}


def _held(now: ShellNow, end: State, name: str) -> str:
    var = end.vars.get(name)
    if end.wild or (var is None and name not in now.made):
        return ""
    if var is None:
        return now.variables.get(name, "")
    return var.value.text if var.value is not None and var.value.taint & Taint.MADE else ""


def _begin(now: ShellNow) -> State:
    state = State()
    state.stdin = now.stdin
    if now.cwd.startswith("/"):
        state.cwds = (now.cwd,)
    if now.variables.get("OLDPWD", "").startswith("/"):
        state.old_cwds = (now.variables["OLDPWD"],)
    if (there := now.variables.get("PWD", now.cwd)) != now.cwd:  # PWD was assigned, or names the folder through links
        state.put("PWD", Var(Value(there)))
    state.positional = tuple(map(Value, now.positional))
    variables = now.variables
    for name in ("IFS", "CDPATH"):  # all others are looked up when they are used
        if name in variables:
            state.put(name, Var(Value(variables[name])))
    if "POSIXLY_CORRECT" in variables:
        state.env = {"POSIXLY_CORRECT": Value(variables["POSIXLY_CORRECT"])}
    if "SHELLOPTS" in variables or "BASHOPTS" in variables:
        state.options = _options(variables.get("SHELLOPTS", ""), variables.get("BASHOPTS", ""))
    if now.interactive:
        state.aliases = {name: (text, -1, -1) for name, text in now.aliases.items()}
        state.options |= {"expand_aliases"}
    if now.attributes or now.arrays:
        _declared(now, state)
    if now.traps:
        state.traps = tuple(text for text in now.traps.values() if text)
        state.unsteady = frozenset(variables.keys() - now.made)
    return state


@functools.lru_cache(maxsize=16)
def _options(*lists: str) -> frozenset[str]:
    return frozenset(":".join(lists).split(":"))


def _declared(now: ShellNow, state: State) -> None:
    whole = sum(map(len, now.arrays.values())) <= _MOST_ELEMENTS
    for name in {**now.arrays, **now.attributes}:
        flags = now.attributes.get(name, "")
        if flags == "x" or name == "PPID":
            continue
        elements = now.arrays.get(name, {} if "a" in flags or "A" in flags else None)
        if elements is None:
            known = now.variables.get(name)
            state.put(name, Var(None if known is None else Value(known), None, flags))
        elif whole:
            state.put(name, Var(None, {key: Value(text) for key, text in elements.items()}, flags))
        else:
            state.put(name, Var(None, {"0": unknown()}, flags, open=True))


# -- traps of the session's shell: what they do was judged when they were set ---------------------------------------


def _signalled(it: Interpreter, first: State) -> list[State]:
    """Return the shell as it is, and as it is after its traps, because a signal may have come since the last call."""
    acts, faults = dict(it.found.acts), dict(it.found.faults)
    after: list[State] = []
    for signal, text in it.now.traps.items():
        if text and signal != "EXIT":
            after += it.text(text, first.copy())
            traps.remember_trap(it, first, text)
    it.found.acts, it.found.faults = acts, faults
    for one in after:
        one.flow = ""
    begin = first.copy()
    begin.disturb(after)
    for one in after:
        one.disturbed, one.roams = begin.disturbed, begin.roams
    return it.merge([begin, *after])


def _trapped(it: Interpreter, first: State, ends: list[State]) -> None:
    """Judge the traps again if something changed that they may depend on."""
    for end in ends:
        functions = any(body.text != it.now.functions.get(name) for name, found in end.functions.items() for body in found)
        changed = functions or end.vars != first.vars or end.aliases != first.aliases or end.cwds != first.cwds
        it.traps([end], () if changed else first.traps)
