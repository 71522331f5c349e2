"""Set variables: ``name=value`` in all its forms, and what the shell runs because of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.judge.meaning import arithmetic, braces, code, expand, moving, parameters
from tools.judge.meaning.shellstate import State, Var
from tools.judge.meaning.value import EMPTY, HOLE, Elastic, Taint, Value, changed, either, joined, unglobbed, unknown
from tools.judge.meaning.walk import Walker
from tools.judge.shell.tree import Assignment, Compound, Plain, Word

_LATE = frozenset({"PS0", "PS1", "PS2", "PS4", "MAILPATH"})
"""Variables whose text bash expands when it shows it."""
_NUMBERS = frozenset({"OPTIND", "RANDOM", "SRANDOM", "HISTCMD", "BASHPID"})
"""Numeric variables of every shell: a value assigned to them is evaluated as arithmetic."""
_CHANGING = frozenset("ilu?")
_KEYED = frozenset({"BASH_ALIASES", "BASH_CMDS"})


def assign(it: Walker, state: State, one: Assignment, expanded: Callable[[], object] | None = None) -> None:
    """Assign ``name=value`` in all its forms; ``expanded`` is called between the expansion and the assignment."""
    compound = next((part for part in one.value.parts if isinstance(part, Compound)), None)
    if compound is not None:
        name = _target(state, one.name)
        made = _array(it, state, state.vars.get(name) or inherited(it, name), one, compound)
        store_all(it, state, name, made.items or {}, open=made.open)
        return
    value = expand.single(it, state, one.value, assigned=True)
    key = None
    if one.index is not None:
        key = parameters.index_key(it, state, one.index, state.vars.get(one.name) or inherited(it, one.name))
        key = HOLE if key is None else key
    if expanded is not None:
        expanded()
    store(it, state, one.name, value, key, append=one.append)


def _target(state: State, name: str) -> str:
    """Return the name that ``name`` refers to, through references."""
    for _ in range(8):
        var = state.vars.get(name)
        if var is None or "n" not in var.flags or var.value is None:
            break
        name = var.value.text
    return name


def _array(it: Walker, state: State, old: Var, one: Assignment, compound: Compound) -> Var:
    known: dict[str, Value] = {}
    if one.append:
        known = dict(old.items) if old.items is not None else ({"0": old.value} if old.value is not None else {})
        if old.open:  # the index of the first new element is unknown
            known[str(_after(known))] = Elastic(HOLE, Taint.UNKNOWN)
    if "A" in old.flags:
        found, more = _keyed(it, state, compound)
    else:
        found, more = _listed(it, state, compound, _after(known))
    return Var(None, {**known, **found}, old.flags, more or (one.append and old.open))


def _after(items: Mapping[str, Value]) -> int:
    return max((int(key) for key in items if key.isdigit()), default=-1) + 1


def _keyed(it: Walker, state: State, compound: Compound) -> tuple[dict[str, Value], bool]:
    """Return an associative array's elements, and whether there may be others: ``[key]=value``, or alternating keys and
    values.
    """
    found: dict[str, Value] = {}
    words: list[Value] = []
    more = False
    for key, word in compound.items:
        value = expand.single(it, state, word)
        if key is None:
            words.append(value)
            continue
        name = expand.single(it, state, key)
        more = more or not name.known
        found[name.text] = value
    for at in range(0, len(words), 2):
        more = more or not words[at].known
        found[words[at].text] = words[at + 1] if at + 1 < len(words) else EMPTY
    return found, more


def _listed(it: Walker, state: State, compound: Compound, at: int) -> tuple[dict[str, Value], bool]:
    """Return an indexed array's elements, from number ``at`` on, and whether there may be others."""
    found: dict[str, Value] = {}
    more = False
    for key, word in compound.items:
        plain = word if key is None else _no_index(key, word)
        if plain is None and key is not None:
            number = arithmetic.evaluate(it, state, expand.single(it, state, key))
            value = expand.single(it, state, word)
            if number is None:
                more = True
                found = {one: either(kept, value) for one, kept in found.items()}
                value, number = Elastic(HOLE, value.taint | Taint.UNKNOWN), at
            found[str(number)] = value
            at = number + 1
            continue
        for value in expand.fields(it, state, [plain or word]):
            if value.pattern:
                files = unglobbed(value)
                value = Elastic(HOLE if files.text[0] == HOLE else files.text, files.taint)
            more = more or isinstance(value, Elastic)
            found[str(at)] = value
            at += 1
    return found, more


def _no_index(key: Word, word: Word) -> Word | None:
    """Return ``[1]={a,b}`` as one word, because with alternatives in braces ``[1]=`` is text of each element. Return None if
    ``key`` is an index.
    """
    if not braces.has_braces(word.parts) and not braces.has_braces(key.parts):
        return None
    parts = [Plain("["), *key.parts, Plain("]="), *word.parts]
    try:
        return Word(parts, word.start, word.end) if len(braces.expand(parts)) > 1 else None
    except braces.TooMany:
        return Word(parts, word.start, word.end)


def store(it: Walker, state: State, name: str, value: Value, key: str | None = None, *, append: bool = False) -> None:
    """Set a variable, or one element of it (``key`` HOLE: an unknown one)."""
    if "[" in name:
        it.embedded(state, value._replace(text=name))
        name, _, key = name.rstrip("]").partition("[")
    var = state.vars.get(name)
    for _ in range(8):
        if var is None or "n" not in var.flags or var.value is None:
            break
        name, _, key = var.value.text.partition("[") if key is None else (var.value.text, "", key)
        key = key.rstrip("]") if isinstance(key, str) and key else None
        var = state.vars.get(name)
    old = var if var is not None else inherited(it, name)
    if "n" in old.flags and old.value is None:
        it.embedded(state, value)
    if "r" in old.flags:
        it.context.doubts.fail(state)
        return
    value = _by_flags(it, state, old, value, key, append=append)
    if value.taint & Taint.OUTSIDE and name in it.now.variables:
        value = changed(value)  # if the assignment is not reached, the variable keeps the session's value
    if key is not None or old.items is not None:
        _element(state, name, old, value, key)
        _named(it, state, name, "0" if key is None else key, value)
    else:
        state.put(name, Var(value, None, _all_exported(state, old.flags)))
    _takes_effect(it, state, name, value)


def store_all(it: Walker, state: State, name: str, items: Mapping[str, Value], *, open: bool) -> None:  # noqa: A002  # as in Var
    """Set a whole array."""
    name = _target(state, name)
    old = state.vars.get(name) or inherited(it, name)
    if "r" in old.flags:
        it.context.doubts.fail(state)
        return
    if _CHANGING & set(old.flags):
        items = {key: _by_flags(it, state, old, value, key, append=False) for key, value in items.items()}
    state.put(name, Var(None, items, old.flags, open))
    for key, value in items.items():
        _named(it, state, name, key, value)


def inherited(it: Walker, name: str) -> Var:
    if name in _KEYED:
        return Var(None, {}, "A")
    known, flags = it.now.variables.get(name), "i" if name in _NUMBERS else ""
    flags += "x" if "x" in it.now.attributes.get(name, "") else ""
    return Var(Value(known), None, flags) if known is not None else Var(flags=flags)


def _all_exported(state: State, flags: str) -> str:
    return flags + "x" if "allexport" in state.options and "x" not in flags else flags


def _by_flags(it: Walker, state: State, var: Var, value: Value, key: str | None, *, append: bool) -> Value:
    if "?" in var.flags:
        it.context.doubts.fail(state)
        return unknown(value.taint)
    if "i" in var.flags:
        number = arithmetic.evaluate(it, state, value)
        if append and number is not None:
            before = var.scalar() if key is None else (var.items or {}).get(key, unknown() if key == HOLE or var.open else EMPTY)
            old = arithmetic.evaluate(it, state, before or EMPTY)
            number = None if old is None else old + number
        return unknown(value.taint) if number is None else Value(str(number), value.taint)
    if append:
        before = var.scalar() if key is None else (var.items or {}).get(key, unknown() if key == HOLE or var.open else EMPTY)
        if before is None and not var.flags and var.items is None and key is None:
            before = EMPTY if var.value is None else var.value
        value = joined([before or EMPTY, value])
        it.limits.spend(len(value.text))
    if "l" in var.flags:
        value = value._replace(text=value.text.lower())
    elif "u" in var.flags:
        value = value._replace(text=value.text.upper())
    return value


def _element(state: State, name: str, old: Var, value: Value, key: str | None) -> None:
    items: dict[str, Value] = dict(old.items) if old.items is not None else {}
    if old.items is None and old.value is not None:
        items["0"] = old.value
    if key == HOLE:
        items = {one: either(kept, value) for one, kept in items.items()}
        state.put(name, Var(None, items or {"0": unknown(value.taint)}, old.flags, open=True))
        return
    key = "0" if key is None else key
    if old.open and "A" not in old.flags and key.isdigit():  # it is unknown which of the other elements come before this one
        others = unknown(joined(items.values()).taint)
        items = {key: value, str(int(key) + 1): others} if key == "0" else {"0": others, key: value, str(int(key) + 1): others}
    items[key] = value
    state.put(name, Var(None, items, old.flags, old.open))


def _named(it: Walker, state: State, array: str, name: str, value: Value) -> None:
    """Apply an assignment to an array of the shell's aliases, found programs or folders."""
    if array == "BASH_ALIASES":
        state.aliases = {**state.aliases, name: (value.text, it.context.epoch, it.context.line)}
    elif array == "BASH_CMDS":
        state.hashed = {**state.hashed, name: value}
    elif array == "DIRSTACK":
        moving.put(state, name, value)


def _takes_effect(it: Walker, state: State, name: str, value: Value) -> None:
    """Run the text of a variable that the shell itself runs."""
    if name == "PROMPT_COMMAND":
        it.text(value.text, state.copy())
    elif name in _LATE:
        it.embedded(state, value)
    elif name in ("BASH_ENV", "ENV") and value.text:
        it.embedded(state, value)
        code.script_file(it, state.copy(), value, [value], [Value("bash")], ())
