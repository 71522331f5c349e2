"""Languages that are compiled (C, Go, Rust, Java): find literals that are run as commands, that name a file to delete or write,
or that name another process.

Nothing is evaluated: an argument that is neither a literal nor a name assigned to one is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._rows import report
from tools.judge.languages._tell import Tell
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import Taint, Value
from tools.judge.procfs import names_process

_TEXT = r'"((?:[^"\\\n]|\\.)*)"'
_TEXTS = r'((?:"(?:[^"\\\n]|\\.)*"\s*,?\s*)+)'
_LITERAL = Regex(_TEXT)
_SIDE_BY_SIDE = Regex(r'(?<=[^\\"(,\s])"\s*\+?\s*"(?=[^"])')
_COMMENT = Regex(r'(?s)("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/')
_NAMED = Regex(rf"(?m)\b([A-Za-z_]\w*)\s*(?:\[\s*\d*\s*\])?\s*(?::\s*&?(?:'static\s+)?\w+\s*)?(?::=|=)\s*{_TEXT}\s*;?\s*$")
_USED = Regex(r"(?<=[(,])\s*&?([A-Za-z_]\w*)\s*(?=[,)])")
_ROWS = (
    (Regex(rf"\b(?:system|_?popen|wordexp)\s*\(\s*({_TEXT})"), "sh 0"),
    (Regex(
        r"\b(?:exec\.Command(?:Context)?\s*\((?:\s*(?:ctx|context\.\w+\(\))\s*,)?|new\s+ProcessBuilder\s*\((?:\s*List\.of\()?"
        rf"|\.exec\s*\(\s*new\s+String\s*\[\s*\]\s*\{{)\s*{_TEXTS}"
    ), "run 0+"),
    (Regex(rf"\.exec\s*\(\s*({_TEXT})"), "sh 0"),
    (Regex(rf"\b(?:_?execl[pe]*|_?spawnlp?|syscall\.Exec)\s*\(\s*(?:\w+\s*,)?\s*{_TEXT}\s*,\s*(?:\[\]string\s*\{{)?\s*{_TEXTS}"),
     "run 0+"),
    (Regex(rf"\bCommand::new\(\s*({_TEXT}\s*\)(?:\s*\.args?\((?:[^()]|\([^()]*\))*\))*)"), "run 0+"),
    (Regex(
        r"\b(?:os\.RemoveAll|remove_dir_all|(?:filesystem|fs)::remove_all|FileUtils\.deleteDirectory)\s*\("
        rf"\s*(?:new File\()?({_TEXT})"
    ), "rm -rf 0"),
    (Regex(
        r"(?<![\w.])(?:os\.Remove|unlink|remove|std::remove|rmdir|(?:std::)?fs::remove_file|Files\.delete(?:IfExists)?)\s*\("
        rf"\s*(?:Paths?\.(?:get|of)\()?({_TEXT})"
    ), "rm 0"),
    (Regex(
        rf"(?<![\w.])(?:(?:os|ioutil)\.WriteFile|os\.Create|(?:std::)?fs::write|File::create|new\s+FileWriter)\s*\(\s*({_TEXT})"
        rf"|\bfopen\s*\(\s*({_TEXT})\s*,\s*\"[wa]"
    ), "> 0"),
    (Regex(rf"\b(?:os\.Symlink|symlink)\s*\(\s*({_TEXT}\s*,\s*{_TEXT})"), "ln -s =0 1"),
    (Regex(
        r'(?:UnixStream::connect|UnixDomainSocketAddress\.of|\bDial\w*\s*\((?:\s*\w+\s*,)?\s*"unix\w*"\s*,|\bsun_path\b[^";]*)'
        rf'\s*\(?\s*({_TEXT})|("unix:/[^"\n]*")'
    ), "connect 0"),
)  # fmt: skip


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    tell, taint = Tell(sink), code.text.taint & (Taint.REMOTE | Taint.DECODED)
    text = _SIDE_BY_SIDE.sub("", _COMMENT.sub(lambda match: match[1] or " ", code.text.text))
    named = {match[1]: f'"{match[2]}"' for match in _NAMED.finditer(text)}
    text = _USED.sub(lambda match: named.get(match[1], match[0]), text) if named else text
    for pattern, row in _ROWS:
        for match in pattern.finditer(text):
            given = next((group for group in match.groups() if group and group[0] == '"'), match[0])
            literals = [one[1] for one in _LITERAL.finditer(given)]
            report(tell, row, [Value(one.replace('\\"', '"').replace("\\n", "\n"), taint) for one in literals], code.language)
    for match in _LITERAL.finditer(text) if "/proc/" in text else ():
        if names_process(match[1]):
            tell.read(Value(match[1]))
    return True
