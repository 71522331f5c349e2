"""vim and ex: command lines that run programs, write or delete files, or evaluate another language."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._tell import Tell
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import HOLE, Value

_RANGE = Regex(r"\s*:*\s*(?:(?:sil(?:ent)?|noautocmd|keepalt|verbose|\d*verb)!?\s+)*(%|[\d.$',+/-]+|'<,'>|g/[^/]*/|/[^/]*/)?\s*")
_PROGRAM = Regex(r"(w|wr|wri|writ|write)?\s*!\s*(.*)|(?:r|re|read)!?\s*!\s*(?P<read>.*)|ter(?:m(?:inal)?)?!?\s+(?P<term>.*)")
_WRITE = Regex(
    r"(?:^|\|)[\s%\d,$.]*(?:(?:w|wr|wri|writ|write|wq|x|xit|sav|saveas|up|update)!?\s+(>>)?\s*([^|]*)|redi?r?!?\s*(>>?)\s*([^@|\s][^|\s]*))"
)
_LANGUAGES = Regex(r"(?s)(?:(py)(?:thon)?[3x]?|pyx|(pe)rl?|(ru)by?|(lu)a|(tc)l)\s+(?:<<\s*\w+\n)?(.*)")
_SOURCE = Regex(r"so(?:u(?:r(?:ce?)?)?)?!?\s+([^\s|%$]+)\s*$")
_NAMES = {"py": "python", "pe": "perl", "ru": "ruby", "lu": "lua", "tc": "tcl"}
_CALL = Regex(r"\b(?:call\s+)?(system|delete)\s*\(\s*(['\"])([^'\"\\]*)\2\s*(,\s*['\"]r?f?['\"]\s*)?\)")
_RISKY = Regex(
    r"\b(?:system|systemlist|delete|writefile|termopen|jobstart|job_start|term_start|libcall|rename|execute|eval)\s*\("
    r"|^exe(?:c(?:ute?)?)?!?\s"
)
"""Functions and commands that run, change or evaluate something. One that ``_CALL`` does not match makes the script opaque."""


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    tell, taint = Tell(sink), code.text.taint
    edited = next((value for value in reversed(args) if value.text[:1] not in ("-", "+")), None)
    opaque = False
    for line in code.text.text.split("\n"):
        match = _RANGE.match(line)
        command = line[match.end() :] if match is not None else line
        if found := _PROGRAM.match(command):
            fed = edited is not None and ((match is not None and match[1]) or found[1])
            program = Value(found[2] or found["read"] or found["term"] or "", taint)
            tell.shell(program, tell.read(edited) if fed and edited is not None else None)
        elif found := _SOURCE.match(command):
            seen = tell.sink.inspect_path(found[1])
            if seen.kind != "missing":
                tell.code("vim", Value(seen.text or HOLE, taint | seen.taint), found[1])
        elif found := _LANGUAGES.match(command):
            tell.code(_NAMES[next(one for one in found.groups() if one)], Value(found[6], taint))
        else:
            for call in _CALL.finditer(command):
                first = Value(call[3], taint)
                tell.shell(first) if call[1] == "system" else tell.remove(first, recursive=bool(call[4]))
            for found in _WRITE.finditer(command):
                if found[2] or found[4]:
                    tell.write(Value((found[2] or found[4]).strip(), taint), append=">>" in (found[1], found[3]))
            opaque = opaque or _RISKY.search(_CALL.sub("", command)) is not None or ("|" in command and "!" in command)
    return not opaque
