"""The working folder: ``cd``, ``pushd``, ``popd`` and the stack of folders."""

from __future__ import annotations

import re

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, journal, variables
from tools.judge.meaning.call import BuiltinCall
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, unglobbed
from tools.judge.meaning.walk import Walker

Folders = tuple[str, ...]

_PLACE = Regex(r"([+-])(\d+)")
_MOST = 1 << 30


def cd(call: BuiltinCall) -> list[State]:
    call.record_act()
    words = [value for value in call.argv[1:] if not re.fullmatch(r"-[LPe@]+|--", value.text)]
    target = words[0] if words else Value(variables.home(call.it, call.state))
    physical = any(re.fullmatch(r"-[Le@]*P[Pe@]*", value.text) for value in call.argv[1:])
    return _moved(call, target, physical=physical)


def pushd(call: BuiltinCall) -> list[State]:
    call.record_act()
    state = call.state
    words = [value for value in call.argv[1:] if value.text not in ("-n", "--")]
    stays = any(value.text == "-n" for value in call.argv[1:])
    folders = _folders(state)
    at = _place(words[0]) if words else 1
    if at is None:
        if stays:
            there = state.copy()
            _moved(call._replace(state=there), words[0])
            _stack(state, [folders[0], there.cwds, *folders[1:]])
            return call.end(0)
        results = _moved(call, words[0])
        _stack(results[0], [results[0].cwds, *folders])
        return results
    if at >= len(folders):
        return _entered(call, [() for _ in folders])
    turned = [*folders[at:], *folders[:at]] if words else [folders[1], folders[0], *folders[2:]]
    if stays:
        turned[0] = folders[0]
    return _entered(call, turned)


def popd(call: BuiltinCall) -> list[State]:
    call.record_act()
    words = [value for value in call.argv[1:] if value.text not in ("-n", "--")]
    stays = any(value.text == "-n" for value in call.argv[1:])
    folders = _folders(call.state)
    at = _place(words[0]) if words else int(stays)
    if at is None or at >= len(folders) or len(folders) == 1:
        return _entered(call, [() for _ in folders])
    left = [*folders[:at], *folders[at + 1 :]]
    if stays:
        left[0] = folders[0]
    return _entered(call, left)


def put(state: State, place: str, value: Value) -> None:
    """Assign an element of DIRSTACK, which ``popd`` uses as the new working folder."""
    folders = _folders(state)
    if place.isdigit() and 0 < int(place) < len(folders):
        folders[int(place)] = (value.text,) if value.text[:1] == "/" and value.known else ()
        _stack(state, folders)
    elif place != "0":
        state.stack = tuple(() for _ in state.stack)


def _place(word: Value) -> int | None:
    """Return the index in the list of folders that ``+N`` means; None for a word that is neither ``+N`` nor ``-N``.

    ``-N`` counts from the end of the list, which is unknown: the result is an index that no list has.
    """
    match = _PLACE.fullmatch(word.text)
    return None if match is None else int(match[2]) if match[1] == "+" else _MOST


def _folders(state: State) -> list[Folders]:
    """Return the folders in the order of ``dirs``, the working folder first. Folders of earlier calls may follow."""
    return [state.cwds, *reversed(state.stack)]


def _stack(state: State, folders: list[Folders]) -> None:
    state.stack = tuple(reversed(folders[1:]))


def _entered(call: BuiltinCall, folders: list[Folders]) -> list[State]:
    """Replace the list of folders, and make the first one the working folder."""
    state = call.state
    _stack(state, folders)
    if folders[0] != state.cwds:
        state.go(folders[0])
        _forget(state)
    return call.end(0 if state.cwds else None)


def _forget(state: State) -> None:
    for var in ("PWD", "OLDPWD"):
        if var in state.vars:
            state.put(var, None)


def _searched(it: Walker, state: State, text: str) -> list[str]:
    """Return the paths that ``cd`` tries for a word: by CDPATH and, if ``cdable_vars`` is set, by a variable of that name."""
    found = [text]
    if text.startswith(("/", "./", "../")) or text in (".", ".."):
        return found
    if "CDPATH" in state.vars:
        path = variables.scalar(it, state, "CDPATH").text
        found = [*(f"{entry.rstrip('/')}/{text}" if entry else text for entry in path.split(":")), text]
    if "cdable_vars" in state.options:
        found.append(variables.scalar(it, state, text).text or text)
    return list(dict.fromkeys(found))


def _moved(call: BuiltinCall, target: Value, *, physical: bool = False) -> list[State]:
    it, state = call.it, call.state
    if target.text == "-" and "OLDPWD" in state.vars:
        target = variables.scalar(it, state, "OLDPWD")
    if target.text == "-":
        new = state.old_cwds
    elif (not target.known or target.pattern) and (new := _processes(it, state, target.text)):
        pass  # the folder of an unknown process
    elif target.pattern or (target.taint & Taint.FOUND and target.text[:1] != HOLE):
        new = _found_folders(it, state, unglobbed(target) if target.pattern else target)
    elif not target.known:
        new = ()
    else:
        found = [
            path
            for text in _searched(it, state, target.text)
            for path in filestate.absolute(it, state, text, logical=not physical)
        ]
        new = tuple(dict.fromkeys(found)) if all(path.startswith(("/", "~")) for path in found) else ()
    stayed = state.copy()
    state.go(new)
    state.status = 0
    _forget(state)
    if new and all(path == "/" or it.snapshot.inspect_path(path).kind == "dir" for path in new):
        return [state]
    stayed.status = -1
    return [state, stayed]


def _found_folders(it: Walker, state: State, target: Value) -> tuple[str, ...]:
    """Return the folders that a pattern may match, with HOLE for unknown parts; () if they may be anywhere."""
    text = f"./{target.text}" if target.text[:1] == HOLE else target.text
    found = filestate.absolute(it, state, text)
    return tuple(dict.fromkeys(found)) if all(path[0] == "/" for path in found) else ()


def _processes(it: Walker, state: State, target: str) -> tuple[str, ...]:
    """Return the folders below /proc that a partly unknown path may be."""
    found: list[str] = []
    for path in filestate.absolute(it, state, target):
        known = _UNKNOWN.split(path, maxsplit=1)[0].rpartition("/")[0]
        there = filestate.real(it, journal.through(state.files, known)) if known[:1] == "/" else known
        if there == "/proc" or there.startswith("/proc/"):
            found.append(there + path[len(known) :])
    return tuple(found)


_UNKNOWN = Regex(rf"[*?\[{HOLE}]")
