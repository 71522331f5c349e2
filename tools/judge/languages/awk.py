"""awk: the commands that its programs run, and the files that they write."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._script_tokens import Lexicon, Token, tokens, unescaped
from tools.judge.languages._tell import MAX_TEXT, Tell, TooMuch, is_secret, join
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import HOLE, Taint, Value

MAX_PARTS = 200

_LEXICON = Lexicon("awk", ("#",), plain='"', interpolating="", regexes=True)
_SEPARATORS = frozenset({";", "}", "{", "\n", ",", ")"})
_BETWEEN = Regex(r"[\s,:;|\"']+")
_SPECIAL = Regex(r"/inet\d?/(?:tcp|udp)/[^/]*/([^/]*)/(.*)")


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    found = tokens(code.text.text, _LEXICON)
    if found is None:
        return False
    try:
        _Program(Tell(sink), found, args).run()
    except TooMuch:
        return False
    return True


class _Program:
    def __init__(self, tell: Tell, found: list[Token], args: Sequence[Value]) -> None:
        self.tell = tell
        self.args = args
        self.words: list[str] | None = None
        self.taint: Taint | None = None
        self.tokens = found
        self.names: dict[str, Value] = {}

    def run(self) -> None:
        printing = False
        for at, token in enumerate(self.tokens):
            before = self.tokens[at - 1] if at else None
            if token.kind == "id":
                if token.raw in ("print", "printf"):
                    printing = True
                elif token.raw == "system" and self.raw(at + 1) == "(":
                    self.tell.shell(self.text(at + 2)[0])
                elif token.raw == "getline":
                    self.getline(at)
                elif self.raw(at + 1) == "=" and self.raw(at + 2) != "=":
                    self.names[token.raw] = self.text(at + 2)[0]
                continue
            if token.kind != "op":
                continue
            if token.raw in (";", "}", "\n"):
                printing = False
            elif token.raw == "|" and self.raw(at + 1) != "getline" and printing:
                self.piped(self.text(at + 1 + (self.raw(at + 1) == "&"))[0], before)
            elif token.raw == ">" and printing:
                twice = self.raw(at + 1) == ">"
                if not (before is not None and before.raw == ">"):
                    self.written(self.text(at + 1 + twice)[0], twice)

    def raw(self, at: int) -> str:
        return self.tokens[at].raw if 0 <= at < len(self.tokens) and self.tokens[at].kind != "str" else ""

    def piped(self, command: Value, before: Token | None) -> None:
        if before is not None and before.kind == "op" and before.raw in ("|", "||"):
            return
        if match := _SPECIAL.match(command.text):
            self.tell.reverse_shell(Value(match[1]), Value(match[2]))
            return
        data = self.printed(before)
        self.tell.run([Value("sh"), Value("-c"), command], data)

    def printed(self, before: Token | None) -> Value:
        if before is not None and before.kind == "str":
            return Value(unescaped(before.raw)[0])
        return Value(HOLE, Taint.LOCAL | Taint.UNKNOWN)

    def written(self, path: Value, twice: bool) -> None:
        if path.text.startswith("/inet"):
            self.tell.reverse_shell()
        elif path.text not in ("/dev/stderr", "/dev/stdout", ""):
            self.tell.write(path, append=twice)
            for word in self.read_words() if HOLE in path.text else ():
                self.tell.write(path._replace(text=path.text.replace(HOLE, word)), append=twice)

    def read_taint(self) -> Taint:
        """Return the taint of the program's input: SECRET if one of its files is secret."""
        if self.taint is None:
            files = [value.text for value in self.args if "=" not in value.text]
            self.taint = Taint.NONE
            for path in files or ["-"]:
                secret = is_secret(path) or self.tell.sink.inspect_path(path).taint & Taint.SECRET
                self.taint |= Taint.SECRET if secret else Taint.NONE
        return self.taint

    def read_words(self) -> Sequence[str]:
        """Return the words of the program's input that look like paths: a field may name the file that is written."""
        if self.words is None:
            named = [token.raw for at, token in enumerate(self.tokens) if token.kind == "str" and self.raw(at - 1) == "<"]
            files = [value.text for value in self.args if "=" not in value.text]
            seen = [self.tell.sink.inspect_path(path) for path in [*files, *named] or ["-"]]
            texts = [one.text for one in seen if one.text is not None and len(one.text) <= MAX_TEXT]
            words = dict.fromkeys(word for text in texts for word in _BETWEEN.split(text) if "/" in word or word[:1] == ".")
            self.words = list(words)
            if len(self.words) > MAX_PARTS:
                raise TooMuch("too many files that it may write")
        return self.words

    def getline(self, at: int) -> None:
        """Report the command of ``"cmd" | getline`` and ``"cmd" |& getline``. ``at`` is the index of ``getline``."""
        if self.raw(at - 1) not in ("|", "&"):
            return
        end = at - 1 if self.raw(at - 1) == "|" else at - 2
        start = end
        while start > max(0, end - MAX_PARTS) and not (
            self.tokens[start - 1].kind == "op" and self.tokens[start - 1].raw in ("{", ";", "(", "\n", "}")
        ):
            start -= 1
        command = self.text(start, end)[0]
        if match := _SPECIAL.match(command.text):
            self.tell.reverse_shell(Value(match[1]), Value(match[2]))
        else:
            self.tell.shell(command)

    def text(self, at: int, end: int | None = None) -> tuple[Value, int]:
        """Return the concatenated text that begins at token ``at``, and the index after it."""
        parts: list[Value] = []
        stop = min(len(self.tokens) if end is None else end, at + MAX_PARTS)
        while at < stop and at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "str":
                shown, hidden = unescaped(token.raw)
                parts.append(Value(shown, Taint.DECODED if hidden else Taint.NONE))
            elif token.kind == "num":
                parts.append(Value(token.raw))
            elif token.kind == "id":
                parts.append(self.names.get(token.raw, Value(HOLE, Taint.UNKNOWN | Taint.FOUND)))
            elif token.raw in _SEPARATORS or token.raw in ("|", ">", "<"):
                break
            elif token.raw == "$":
                parts.append(Value(HOLE, Taint.UNKNOWN | Taint.LOCAL | Taint.FOUND | self.read_taint()))
                at += 1
            at += 1
        return (join(parts) if parts else Value(HOLE, Taint.UNKNOWN)), at
