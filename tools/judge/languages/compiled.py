"""Languages that are compiled (C, Go, Rust, Java): literals that are run, or name what is deleted, written, or another process's.

Nothing is evaluated: an argument that is no literal, and no name that is given one, is let be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.act import Code, RedirectTarget, Sink
from tools.judge.meaning.value import Taint, Value
from tools.judge.procfs import names_process

_TEXT = r'"((?:[^"\\\n]|\\.)*)"'
_TEXTS = r'((?:"(?:[^"\\\n]|\\.)*"\s*,?\s*)+)'
_ONE = Regex(_TEXT)
_SIDE_BY_SIDE = Regex(r'(?<=[^\\"(,\s])"\s*\+?\s*"(?=[^"])')
_COMMENT = Regex(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NAMED = Regex(
    rf"\b([A-Za-z_]\w*)\s*(?:\[\s*\d*\s*\])?\s*(?::\s*&?(?:'static\s+)?\w+\s*)?(?::=|=)\s*{_TEXT}\s*;?\s*$", re.MULTILINE
)
_USED = Regex(r"(?<=[(,])\s*&?([A-Za-z_]\w*)\s*(?=[,)])")

_SHELLS = Regex(rf"\b(?:system|_?popen|wordexp)\s*\(\s*{_TEXT}")
_STARTS = Regex(
    r"\b(?:exec\.Command(?:Context)?\s*\((?:\s*(?:ctx|context\.\w+\(\))\s*,)?|new\s+ProcessBuilder\s*\((?:\s*List\.of\()?"
    rf"|\.exec\s*\(\s*new\s+String\s*\[\s*\]\s*\{{)\s*{_TEXTS}"
)
_EXEC_LINE = Regex(rf"\.exec\s*\(\s*{_TEXT}")
_EXEC_LIST = Regex(
    rf"\b(?:_?execl[pe]*|_?spawnlp?|syscall\.Exec)\s*\(\s*(?:\w+\s*,)?\s*{_TEXT}\s*,\s*(?:\[\]string\s*\{{)?\s*{_TEXTS}"
)
_RUST = Regex(rf"\bCommand::new\(\s*{_TEXT}\s*\)((?:\s*\.args?\((?:[^()]|\([^()]*\))*\))*)")
_TREES = Regex(
    r"\b(?:os\.RemoveAll|remove_dir_all|(?:filesystem|fs)::remove_all|FileUtils\.deleteDirectory)\s*\("
    rf"\s*(?:new File\()?{_TEXT}"
)
_FILES = Regex(
    r"(?<![\w.])(?:os\.Remove|unlink|remove|std::remove|rmdir|(?:std::)?fs::remove_file|Files\.delete(?:IfExists)?)\s*\("
    rf"\s*(?:Paths?\.(?:get|of)\()?{_TEXT}"
)
_WRITES = Regex(
    rf"(?<![\w.])(?:(?:os|ioutil)\.WriteFile|os\.Create|(?:std::)?fs::write|File::create|new\s+FileWriter)\s*\(\s*{_TEXT}"
    rf"|\bfopen\s*\(\s*{_TEXT}\s*,\s*\"[wa]"
)
_LINKS = Regex(rf"\b(?:os\.Symlink|symlink)\s*\(\s*{_TEXT}\s*,\s*{_TEXT}")
_SOCKETS = Regex(
    r'(?:UnixStream::connect|UnixDomainSocketAddress\.of|\bDial\w*\s*\((?:\s*\w+\s*,)?\s*"unix\w*"\s*,|\bsun_path\b[^";]*)'
    rf'\s*\(?\s*{_TEXT}|"(unix:/[^"\n]*)"'
)
_ON_A_PATH = ((_TREES, ("rm", "-rf")), (_FILES, ("rm",)), (_SOCKETS, ("@socket",)))
_ESCAPE = Regex(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    taint = code.text.taint & (Taint.REMOTE | Taint.DECODED)
    text = _plain(code.text.text)

    def value(literal: str) -> Value:
        return Value(_ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), literal), taint)

    def values(literals: str) -> list[Value]:
        return [value(one[1]) for one in _ONE.finditer(literals)]

    for match in _SHELLS.finditer(text):
        sink.shell(value(match[1]))
    for match in _STARTS.finditer(text):
        sink.run(values(match[1]))
    for match in _EXEC_LINE.finditer(text):
        sink.run([value(word) for word in match[1].split()])
    for match in _EXEC_LIST.finditer(text):
        sink.run([value(match[1]), *values(match[2])[1:]])
    for match in _RUST.finditer(text):
        sink.run([value(match[1]), *values(match[2])])
    for pattern, words in _ON_A_PATH:
        for match in pattern.finditer(text):
            sink.run([*map(Value, words), value(match[1] or match[2])])
    for match in _LINKS.finditer(text):
        sink.run([Value("ln"), Value("-s"), value(match[1]), value(match[2])])
    for match in _WRITES.finditer(text):
        sink.run([], [RedirectTarget(">", value(match[1] or match[2]))])
    _processes(text, sink)
    return True


def _processes(text: str, sink: Sink) -> None:
    for match in _ONE.finditer(text) if "/proc/" in text else ():
        if names_process(match[1]):
            sink.run([], [RedirectTarget("<", Value(match[1]), 0)])


def _plain(text: str) -> str:
    """Return the source without comments, literals that stand side by side as one, and names of literals as these."""
    text = _COMMENT.sub(lambda match: match[1] or " ", text)
    text = _SIDE_BY_SIDE.sub("", text)
    named = {match[1]: f'"{match[2]}"' for match in _NAMED.finditer(text)}
    return _USED.sub(lambda match: named.get(match[1], match[0]), text) if named else text
