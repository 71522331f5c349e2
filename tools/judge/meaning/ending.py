"""The state after a program: the files it leaves, its output, its status."""

from __future__ import annotations

from collections.abc import Sequence

from tools.judge.meaning import descriptors, effects, filestate, output, packing
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Taint, Value, names, tainted, unknown
from tools.judge.meaning.walk import Walker

Values = Sequence[Value]

_CONSUMERS = names("cat head tail sed awk grep sort tr cut tee wc xargs ssh bash sh python python3 perl")
_PASS_ON = names("cat tee pv tr base64 base32 gzip pigz bzip2 xz zstd lz4 fold rev nl expand openssl stdbuf")
"""Programs that print for as long as they get input."""
_NO_END = frozenset({"/dev/zero", "/dev/urandom", "/dev/random", "/dev/full"})


def finished(it: Walker, state: State, name: str, argv: Values) -> list[State]:
    """Return the states after a program has written its files and output."""
    effects.apply(it, state, name, argv)
    if state.capture:
        printed = tainted(output.of_program(it, state, name, argv), packing.to_output(it, state, name, argv))
        state.emit(_flowing(name, argv, state.stdin, printed))
    if name in _CONSUMERS and state.stdin is not None and state.stdin.text:
        descriptors.read_on(state, state.stdin, filestate.lost(it, state.stdin))
    state.status = None
    return [state]


def _flowing(name: str, argv: Values, stdin: Value | None, printed: Value) -> Value:
    """Return ``printed``, marked as endless if the program's output never ends."""
    flows = name == "yes" or (name == "seq" and argv[-1].text.lower() in ("inf", "infinity"))
    flows = flows or (name in _PASS_ON and stdin is not None and bool(stdin.taint & Taint.ENDLESS))
    flows = flows or (name in ("cat", "pv", "tac") and any(value.text in _NO_END for value in argv[1:]))
    if flows:
        return unknown(printed.taint | Taint.ENDLESS)
    return printed._replace(taint=printed.taint & ~Taint.ENDLESS) if printed.taint & Taint.ENDLESS else printed
