"""Builtins that declare and unset variables: ``declare``, ``local``, ``export``, ``readonly``, ``unset``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import arithmetic, assigning
from tools.judge.meaning.call import BuiltinCall
from tools.judge.meaning.shellstate import State, Var
from tools.judge.meaning.value import HOLE, Elastic, Taint, Value, joined, unknown
from tools.judge.meaning.walk import Walker
from tools.judge.shell.tree import Assignment, Compound

_NAMED = Regex(r"([A-Za-z_]\w*)(?:\[(.*)\])?(\+?)=", re.DOTALL | re.ASCII)


def unset(call: BuiltinCall) -> list[State]:
    call.record_act()
    words = [value.text for value in call.argv[1:]]
    for value in call.argv[1:]:
        if not value.text.startswith("-"):
            _forgotten(call, value, words)
    return call.end(None if any("r" in var.flags for var in map(call.state.vars.get, words) if var is not None) else 0)


def _forgotten(call: BuiltinCall, value: Value, words: list[str]) -> None:
    state = call.state
    name, bracket, key = value.text.partition("[")
    var = state.vars.get(name)
    if bracket:
        if "$(" in key:
            call.it.embedded(state, value)
        _element_forgotten(call, name, key.rstrip("]"), var)
        return
    if "-f" not in words and (var is None or "r" not in var.flags):
        if var is not None and "n" in var.flags and "-n" not in words and var.value is not None:
            name = var.value.text
        state.put(name, None if name == "IFS" else Var(None, None, ""))
    if "-f" in words and not value.known:
        state.options |= {"functions?"}
    if "-f" in words or (var is None and name not in call.it.now.variables):
        state.functions = {**state.functions, name: ()}


def _element_forgotten(call: BuiltinCall, name: str, index: str, var: Var | None) -> None:
    state = call.state
    if var is None:
        return
    if var.items is None:
        if index == "0":
            state.put(name, Var(None, None, ""))
    elif index in ("@", "*"):
        state.put(name, Var(None, None, ""))
    else:
        number = index if "A" in var.flags else str(arithmetic.evaluate(call.it, state, Value(index)))
        if var.open or number == "None" or HOLE in number:
            taint = joined(var.items.values()).taint
            state.put(name, Var(None, {"0": Elastic(HOLE, taint | Taint.UNKNOWN)}, var.flags, open=True))
            return
        state.put(name, var._replace(items={one: kept for one, kept in var.items.items() if one != number}))


def declare(call: BuiltinCall) -> list[State]:
    call.record_act()
    it, state = call.it, call.state
    name = call.argv[0].text
    flags, minus, rest = _flags(name, call.argv[1:])
    compounds = {word.name: word for word in (call.cmd.words if call.cmd is not None else ())
                 if isinstance(word, Assignment) and any(isinstance(part, Compound) for part in word.value.parts)}  # fmt: skip
    if "f" in flags or "F" in flags:
        if name == "export":
            state.options |= {"export -f"}
        state.emit(unknown())
        return call.end(0)
    if not rest or "p" in flags:
        state.emit(unknown(Taint.SECRET))
        return call.end(None if rest else 0)
    if name == "local" and not state.frames:
        return call.end(1)
    local = name == "local" or (name in ("declare", "typeset") and "g" not in flags and bool(state.frames))
    for value in rest:
        if isinstance(value, Elastic):  # bash splits an unquoted unknown part, so what follows it may be another word
            value = value._replace(text=value.text.partition(HOLE)[0] + HOLE)
        _calculated(it, state, value, flags)
        _declared(it, state, value, flags, minus, compounds, local=local)
    doubts = it.context.doubts
    return call.end(None if doubts.failed else doubts.substituted if any(not value.known for value in rest) else 0)


def _flags(name: str, words: Sequence[Value]) -> tuple[str, str, list[Value]]:
    flags = {"export": "x", "readonly": "r"}.get(name, "")
    minus = ""
    rest = list(words)
    while rest and rest[0].text[:1] in ("-", "+") and rest[0].text[1:]:
        text = rest.pop(0).text
        if text == "--":
            break
        if text[0] == "+" or (name == "export" and "n" in text):
            minus += "x" if name == "export" else text[1:]
        else:
            flags += text[1:]
    return flags, minus, rest


def _calculated(it: Walker, state: State, value: Value, flags: str) -> None:
    """Follow the commands in the subscript of the declared element, or of the element that a name reference refers to."""
    match = _NAMED.match(value.text)
    name = match[1] if match is not None else value.text
    var = state.vars.get(name)
    if "n" in flags or (var is not None and "n" in var.flags):
        it.embedded(state, value if match is not None else (var or Var()).scalar() or value)
    elif match is not None and match[2]:
        it.embedded(state, value._replace(text=match[2]))


def _declared(
    it: Walker, state: State, value: Value, flags: str, minus: str, compounds: dict[str, Assignment], *, local: bool
) -> None:
    match = _NAMED.match(value.text)
    name = match[1] if match is not None else value.text.partition("[")[0]
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        it.embedded(state, value)
        return
    if match is not None and "r" in state.vars.get(name, _UNKNOWN).flags:
        it.context.doubts.fail(state)
        return
    if local:
        state.local(name)
    old = state.vars.get(name) if not local or match is None or match[3] else None
    if local and match is None:
        old = Var()
    kept = (old if old is not None else assigning.inherited(it, name)).flags
    attributes = "".join(sorted({*kept, *(flag for flag in flags if flag in "xinluA")} - set(minus)))
    readonly = "r" if "r" in flags else ""
    base = old if old is not None else (Var() if match is not None or local or flags else _now(it, name))
    if ("a" in flags or "A" in flags) and base.items is None:
        base = Var(None, {} if base.value is None else {"0": base.value})
    if match is None:
        if base.value is None and base.items is None and not local and "x" in flags:
            base = _now(it, name)
        if base is not _UNKNOWN or flags:
            state.put(name, base._replace(flags=attributes + readonly))
        return
    if name in compounds:
        state.put(name, Var(None, dict(base.items or {}), attributes))
        assigning.assign(it, state, compounds[name])
    elif "n" in attributes:
        state.put(name, Var(value._replace(text=value.text[match.end() :], shown=""), None, attributes))
    else:
        state.put(name, base._replace(flags=attributes.replace("r", "")))
        text = value._replace(text=value.text[match.end() :], shown="")
        assigning.store(it, state, name, text, match[2], append=bool(match[3]))
    if readonly and (var := state.vars.get(name)) is not None:
        state.put(name, var._replace(flags=var.flags + readonly))


_UNKNOWN = Var(unknown())


def _now(it: Walker, name: str) -> Var:
    known = it.now.variables.get(name)
    return Var(Value(known)) if known is not None else _UNKNOWN


BUILTINS = {"unset": unset, **dict.fromkeys(["declare", "typeset", "local", "export", "readonly"], declare)}
