"""Tokens of perl, ruby, JavaScript, PHP and Lua: strings, comments and names, without a grammar."""

from __future__ import annotations

import re
from dataclasses import dataclass

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex

MAX_TOKENS = 60_000

_OPENERS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "e": "\x1b", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_NUMBER = Regex(r"0[xX][\da-fA-F_]+|0[bB][01]+|0[oO]?[0-7]+(?![\d.])|\d[\d_]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_HEREDOC = Regex(r"<<<?([~-]?)\s*(['\"]?)([A-Za-z_]\w*)\2")
_PERL_QUOTE = Regex(r"(qq|qw|qx|qr|q|m|s|tr|y)(?=\s*[^\w\s,;=)]|\s+[^\w\s,;=)])\s*")
_OPERATORS = Regex(r"===|!==|\*\*=|\.\.\.|=>|->|::|\?\.|\|\||&&|\.\.|\+=|\.=|==|!=|=~|!~|<=|>=|\+\+|--|\|=|.", re.DOTALL)


class Token(NamedTuple):
    """A token. ``kind``: str, cmd, id, num, re, op or words. ``raw``: its text; in a string, escapes and interpolations stay."""

    kind: str
    raw: str
    interpolates: bool = False


@dataclass(frozen=True)
class Lexicon:
    name: str
    line_comments: tuple[str, ...]
    block_comments: tuple[tuple[str, str], ...] = ()
    identifier: str = r"[A-Za-z_]\w*"
    interpolating: str = '"'
    commands: str = ""
    """Quotes around shell text."""
    plain: str = "'"
    regexes: bool = False
    percent: bool = False
    """True if ``%x() %w() %q() %Q()`` are quotes, as in ruby."""
    perl_quotes: bool = False
    heredocs: bool = False

    def pattern(self) -> re.Pattern[str]:
        return re.compile(self.identifier)


def tokens(source: str, lexicon: Lexicon) -> list[Token] | None:
    """Split source into tokens. Return None if a string doesn't end, or there are too many tokens."""
    return _Lexer(source, lexicon).run()


class _Lexer:
    def __init__(self, source: str, lexicon: Lexicon) -> None:
        self.source = source
        self.lexicon = lexicon
        self.names = lexicon.pattern()
        self.at = 0
        self.found: list[Token] = []
        self.heredocs: list[tuple[str, bool, int]] = []
        self.plain_slashes = -1
        """No slash before this offset begins a regular expression, because an earlier one had no end."""
        self.quotes = lexicon.interpolating + lexicon.commands + lexicon.plain

    def run(self) -> list[Token] | None:
        source, end = self.source, len(self.source)
        while self.at < end:
            char = source[self.at]
            if char == "\n":
                self.at += 1
                self.found.append(Token("op", "\n"))
                if self.heredocs and not self._bodies():
                    return None
            elif char.isspace():
                self.at += 1
            elif not self._comment() and not self._token(char):
                return None
            if len(self.found) > MAX_TOKENS:
                return None
        return self.found

    def _comment(self) -> bool:
        source = self.source
        for opener, closer in self.lexicon.block_comments:
            if source.startswith(opener, self.at) and (opener[0] != "=" or self.at == 0 or source[self.at - 1] == "\n"):
                stop = source.find(closer, self.at + len(opener))
                self.at = len(source) if stop < 0 else stop + len(closer)
                return True
        for opener in self.lexicon.line_comments:
            if source.startswith(opener, self.at) and not (
                opener == "#" and source.startswith("#[", self.at) and self.lexicon.name == "php"
            ):
                stop = source.find("\n", self.at)
                self.at = len(source) if stop < 0 else stop
                return True
        return False

    def _token(self, char: str) -> bool:
        """Read a token that begins with ``char``; return whether it could be read."""
        lexicon, source = self.lexicon, self.source
        if lexicon.name == "lua" and (long := re.compile(r"\[(=*)\[").match(source, self.at)):
            return self._until(long.end(), f"]{long[1]}]", "str", False)
        if char in self.quotes:
            return self._quoted(char)
        if lexicon.perl_quotes and char.isalpha() and self._may_quote() and (match := _PERL_QUOTE.match(source, self.at)):
            return self._perl_quote(match)
        if lexicon.percent and char == "%" and self._operand_expected():
            match = re.compile(r"%([xwWqQi]?)([(\[{<|!/])").match(source, self.at)
            if match is not None:
                self.at = match.end()
                kind = {"x": "cmd", "w": "words", "W": "words", "i": "words"}.get(match[1], "str")
                return self._delimited(match[2], kind, match[1] in ("x", "Q", "W", ""))
        if lexicon.heredocs and source.startswith("<<", self.at) and (match := _HEREDOC.match(source, self.at)):
            self.heredocs.append((match[3], match[2] != "'", len(self.found)))
            self.found.append(Token("str", ""))
            self.at = match.end()
            return True
        if match := self.names.match(source, self.at):
            self.found.append(Token("id", match[0]))
            self.at = match.end()
            return True
        if char.isdigit() and (match := _NUMBER.match(source, self.at)):
            self.found.append(Token("num", match[0]))
            self.at = match.end()
            return True
        if char == "/" and lexicon.regexes and self.at > self.plain_slashes and self._operand_expected():
            return self._regex()
        match = _OPERATORS.match(source, self.at)
        raw = match[0] if match is not None else char
        self.found.append(Token("op", raw))
        self.at += len(raw)
        return True

    def _may_quote(self) -> bool:
        return not self.found or self.found[-1].raw not in ("->", "{", "::") or self.found[-1].kind != "op"

    def _operand_expected(self) -> bool:
        if not self.found:
            return True
        last = self.found[-1]
        if last.kind == "op":
            return last.raw not in (")", "]", "}")
        return last.kind == "id" and last.raw in (
            "return",
            "and",
            "or",
            "not",
            "if",
            "unless",
            "while",
            "split",
            "grep",
            "puts",
            "print",
        )

    def _quoted(self, quote: str) -> bool:
        lexicon = self.lexicon
        self.at += 1
        kind = "cmd" if quote in lexicon.commands else "str"
        return self._delimited(quote, kind, quote in lexicon.interpolating or kind == "cmd")

    def _delimited(self, opener: str, kind: str, interpolates: bool) -> bool:
        source, closer, depth = self.source, _OPENERS.get(opener, opener), 1
        at, end = self.at, len(self.source)
        while at < end:
            char = source[at]
            if char == "\\":
                at += 2
                continue
            if char == closer:
                depth -= 1
                if depth == 0:
                    self.found.append(Token(kind, source[self.at : at], interpolates))
                    self.at = at + 1
                    return True
            elif char == opener:
                depth += 1
            at += 1
        return False

    def _perl_quote(self, match: re.Match[str]) -> bool:
        word, opener = match[1], self.source[match.end() : match.end() + 1]
        if opener == "=" or (opener == "#" and match.end() - match.start() > len(word)):
            self.found.append(Token("id", word))
            self.at = match.start() + len(word)
            return True
        self.at = match.end() + 1
        kind = {"qx": "cmd", "qw": "words", "q": "str", "qq": "str"}.get(word, "re")
        if not self._delimited(opener, kind, word in ("qq", "qx") and opener != "'"):
            return False
        if word in ("s", "tr", "y"):
            pattern = self.found.pop()
            if opener in _OPENERS:
                while self.source[self.at : self.at + 1].isspace():
                    self.at += 1
                opener = self.source[self.at : self.at + 1]
                self.at += 1
            if not self._delimited(opener, "str", True):
                return False
            replacement = self.found.pop()
            flags = re.compile(r"[a-z]*").match(self.source, self.at)
            shown = flags[0] if flags is not None else ""
            self.at += len(shown)
            self.found.append(Token("re", pattern.raw))
            if word == "s" and "e" in shown:
                self.found.append(Token("id", "_evaluate_replacement"))
                self.found.append(Token("op", "("))
                self.found.append(Token("str", replacement.raw, False))
                self.found.append(Token("op", ")"))
        return True

    def _regex(self) -> bool:
        at, inside = self.at + 1, False
        while at < len(self.source):
            char = self.source[at]
            if char == "\n":
                break
            if char == "\\":
                at += 1
            elif char == "[":
                inside = True
            elif char == "]":
                inside = False
            elif char == "/" and not inside:
                self.found.append(Token("re", self.source[self.at + 1 : at]))
                self.at = at + 1
                while self.source[self.at : self.at + 1].isalpha():
                    self.at += 1
                return True
            at += 1
        self.found.append(Token("op", "/"))
        self.plain_slashes = at
        self.at += 1
        return True

    def _until(self, start: int, closer: str, kind: str, interpolates: bool) -> bool:
        stop = self.source.find(closer, start)
        if stop < 0:
            return False
        self.found.append(Token(kind, self.source[start:stop], interpolates))
        self.at = stop + len(closer)
        return True

    def _bodies(self) -> bool:
        """Read the bodies of the heredocs that were opened in the line before."""
        for word, interpolates, place in self.heredocs:
            match = re.compile(rf"^[ \t]*{word}\b", re.MULTILINE).search(self.source, self.at)
            if match is None:
                return False
            self.found[place] = Token("str", self.source[self.at : match.start()], interpolates)
            self.at = match.end()
        self.heredocs = []
        return True


def unescaped(raw: str) -> tuple[str, bool]:
    """Return a string's text without its backslashes, and whether numeric escapes hid some of it."""
    if "\\" not in raw:
        return raw, False
    hidden = False

    def replace(match: re.Match[str]) -> str:
        nonlocal hidden
        if match[1]:
            code = int(match[1].strip("xu{}"), 16) if match[1][0] in "xu" else int(match[1], 8)
            hidden = hidden or 32 < code < 127
            return chr(code) if code < 0x110000 else ""
        return _ESCAPES.get(match[2], match[2])

    return _ESCAPE.sub(replace, raw), hidden


_ESCAPE = Regex(r"\\(?:(x[\da-fA-F]{1,2}|x\{[\da-fA-F]{1,6}\}|u[\da-fA-F]{4}|u\{[\da-fA-F]{1,6}\}|[0-3][0-7]{2})|(.))", re.DOTALL)
