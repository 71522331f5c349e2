"""Lua."""

from __future__ import annotations

from collections.abc import Sequence

from tools.judge.languages import _script_calls as c
from tools.judge.languages._script import read_script
from tools.judge.languages._script_language import Call, Language, Opened, SourceReader, Thing
from tools.judge.languages._script_tokens import Lexicon
from tools.judge.languages._tell import join
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, Value


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    return read_script(code, args, sink, LANGUAGE)


def _open(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    path, mode = c.at(args, 0), c.at(args, 1).text if len(args) > 1 else "r"
    if mode[:1] in ("w", "a") or "+" in mode:
        return Opened("file", ANYTHING, r.tell.begin(path, mode[:1] == "a"))
    return Opened("file", r.tell.read(path))


CALLS: dict[str, Call] = {
    "os.execute": c.shell,
    "io.popen": c.shell,
    "os.remove": c.remove,
    "os.rename": c.move,
    "io.open": _open,
    "io.output": c.write,
    "load": c.evaluate("lua"),
    "loadstring": c.evaluate("lua"),
    "dofile": c.run_file("lua"),
    "loadfile": c.run_file("lua"),
    "string.char": c.characters,
    "string.reverse": c.reverse,
    "string.format": c.sprintf,
    "table.concat": lambda r, args, owner: join(c.words_of(args[:1]), c.at(args, 1).text if len(args) > 1 else ""),
    "os.getenv": c.variable,
    "socket.connect": c.connect,
    "*.connect": c.connect,
    "*.read": c.content,
    "*.receive": c.content,
    "*.write": c.send,
    "*.send": c.send,
    "*.reverse": c.reverse,
    "*.execute": c.query,
}

LANGUAGE = Language(
    Lexicon("lua", ("--",), (("--[[", "]]"),), interpolating="", plain="'\""),
    CALLS,
    frozenset({".."}),
    bare=True,
    separators=frozenset({".", ":"}),
)
