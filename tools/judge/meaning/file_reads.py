"""Builtins that put text into variables: ``read``, ``mapfile``, ``printf -v``."""

from __future__ import annotations

import re

from tools.judge.meaning import assigning, descriptors, expand, printing
from tools.judge.meaning.call import BuiltinCall
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import EMPTY, HOLE, Taint, Value, changed, tainted, unknown


def printf_into(call: BuiltinCall) -> list[State]:
    attached = call.argv[1].text[2:]
    rest = call.argv[2:] if attached else call.argv[3:]
    name = attached or (call.argv[2].text if len(call.argv) > 2 else "")
    if not rest:
        return call.end(2)
    call.it.assign_name(call.state, name, changed(printing.printf([call.argv[0], *rest])))
    return call.end(None if call.it.context.doubts.failed else 0)


def read(call: BuiltinCall) -> list[State]:
    call.record_act()
    state = call.state
    names: list[str] = []
    array, raw, delimiter, descriptor, taking = "", False, "\n", "0", ""
    for value in call.argv[1:]:
        text = value.text
        if taking:
            array = text if taking == "a" else array
            delimiter = (text[:1] or "\0") if taking == "d" else delimiter
            descriptor = text if taking == "u" else descriptor
            taking = ""
            continue
        if text.startswith("-") and len(text) > 1 and not names:
            raw = raw or "r" in text
            if text[-1] in "adinNptu":
                taking = text[-1]
            elif "d" in text:
                delimiter = text[text.index("d") + 1]
            elif "u" in text:
                descriptor = text.partition("u")[2]
        else:
            names.append(text)
    given = state.stdin if descriptor == "0" else state.fds.get(descriptor)
    if given is None or any("n" in value.text.lower() for value in call.argv[1:] if value.text[:1] == "-"):
        descriptors.read_in_part(state, given)
        return _read_into(call, names, array, unknown((given or EMPTY).taint), None)
    text = given.text
    if not raw:
        text = text.replace("\\\n", "") if delimiter == "\n" else text
    line, mark, rest = text.partition(delimiter)
    if not raw:
        line = re.sub(r"\\(.)", r"\1", line)
    if HOLE in line or (HOLE in text and not mark):
        known_start = line.partition(HOLE)[0]
        line = known_start + HOLE
        rest = HOLE + rest if HOLE in text else rest
        status: int | None = None
    else:
        status = 0 if mark else 1
    descriptors.read_on(state, given, given._replace(text=rest, shown=""))
    taint = given.taint if HOLE in line else given.taint & ~Taint.UNKNOWN
    return _read_into(call, names, array, Value(line, taint), status)


def _read_into(call: BuiltinCall, names: list[str], array: str, value: Value, status: int | None) -> list[State]:
    it, state = call.it, call.state
    if it.context.rounds and HOLE in value.text:
        value = tainted(value, Taint.MANY)
    if array:
        parts = _fields(state, value.text, 0)
        listed = {str(at): Value(part, value.taint) for at, part in enumerate(parts)}
        assigning.store_all(it, state, array, listed, open=HOLE in value.text)
        return call.end(None if it.context.doubts.failed else status)
    if not names:
        it.assign_name(state, "REPLY", value)
        return call.end(None if it.context.doubts.failed else status)
    parts = _fields(state, value.text, len(names))
    if HOLE in value.text and parts:  # the unknown part may be empty, and its separator is then dropped
        parts[-1] = _rstripped(parts[-1], expand.separators(state) or "")
    for at, name in enumerate(names):
        part = parts[at] if at < len(parts) else (HOLE if HOLE in value.text else "")
        if HOLE in value.text and HOLE not in part:
            part = part if HOLE not in "".join(parts[: at + 1]) else HOLE
        # If a value for an integer variable is not a number, bash does not set the variables after it.
        it.assign_name(state, name, unknown(value.taint) if it.context.doubts.failed else Value(part, value.taint))
    return call.end(None if it.context.doubts.failed else status)


def _fields(state: State, text: str, count: int) -> list[str]:
    """Return a line split by IFS into at most ``count`` (0: any number of) parts."""
    ifs = expand.separators(state)
    if ifs is None:
        return [HOLE] * max(1, count)
    blanks = "".join(char for char in ifs if char in " \t\n")
    if not ifs:
        return [text]
    text = text.strip(blanks) if blanks else text
    if not text:
        return []
    splitter = expand.splitter(ifs)
    parts = splitter.split(text, maxsplit=max(0, count - 1)) if count != 1 else [text]
    if count and len(parts) == count and count > 0:
        others = [char for char in ifs if char not in " \t\n"]
        last = parts[-1]
        if others and last[-1:] in others and not any(char in last[:-1] for char in others):
            parts[-1] = last[:-1]
    if parts and parts[-1] == "" and not count:
        parts.pop()
    return parts


def _rstripped(text: str, ifs: str) -> str:
    return text[:-1].rstrip(ifs) + HOLE if ifs and text.endswith(HOLE) else text


def mapfile(call: BuiltinCall) -> list[State]:
    call.record_act()
    state = call.state
    for at, value in enumerate(call.argv[1:-1], 1):
        if re.fullmatch(r"-\w*C", value.text):
            text = f"{call.argv[at + 1].text} 0 {HOLE}"
            state.disturb(call.it.text(text, state.copy()))
    names = [value.text for at, value in enumerate(call.argv[1:], 1)
             if not value.text.startswith("-") and not re.fullmatch(r"-\w*[dnOsucC]", call.argv[at - 1].text)]  # fmt: skip
    trimmed = any(re.match(r"-\w*t", value.text) for value in call.argv[1:])
    sources = [(match[1] or call.argv[at + 1].text) for at, value in enumerate(call.argv[1:-1], 1)
               if (match := re.match(r"-\w*u(\d*)", value.text))]  # fmt: skip
    given = state.fds.get(sources[-1]) if sources and sources[-1] != "0" else state.stdin
    name = names[-1] if names else "MAPFILE"
    if given is None or not given.known or any(re.match(r"-\w*[dnOsuC]", value.text) for value in call.argv[1:]):
        descriptors.read_in_part(state, given)
        assigning.store_all(call.it, state, name, {"0": unknown((given or EMPTY).taint)}, open=True)
        return call.end(None)
    lines = given.text.splitlines(keepends=not trimmed)
    assigning.store_all(call.it, state, name, {str(at): Value(line, given.taint) for at, line in enumerate(lines)}, open=False)
    descriptors.read_on(state, given, Value("", given.taint))
    return call.end(None if call.it.context.doubts.failed else 0)


BUILTINS = {"read": read, "mapfile": mapfile, "readarray": mapfile}
