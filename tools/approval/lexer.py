"""Shell text to simple commands: quotes, escapes, comments, operators, redirects, here-documents, substitutions.

It reads what bash would read closely enough for patterns to be laid over the outcome; it expands nothing.
Time is linear in the text: every substitution's body is found once here, and read by whoever unfolds it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PLAIN = re.compile(r"[^\s\\'\"$`<>|&;()#]+")
_REDIRECT = re.compile(r"(?:\d+|&)?(?:>>|>\||>&|<>|<&|>|<)")
_IO_NUMBER = re.compile(r"\d+(?=[<>])")
_QUOTED_PLAIN = re.compile(r"[^\\\"$`]+")
_IN_PARENS = re.compile(r"[^()'\"\\<]+")
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1(?=\s)", re.ASCII)
_MAX_INNER_HEREDOCS = 50
_ANSI_C = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL)
_ANSI_NAMES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Word:
    """One word with its quotes removed. ``quoted``: some of it was, so it neither splits nor names a reserved word."""

    text: str
    quoted: bool = False


@dataclass(slots=True)
class Simple:
    """One simple command. ``stdin`` is the text of its here-document or here-string; ``piped``: a pipe feeds it."""

    words: list[Word] = field(default_factory=list)
    redirects: list[tuple[str, str]] = field(default_factory=list)
    stdin: str | None = None
    piped: bool = False


@dataclass(slots=True)
class Lexed:
    """``inner`` holds the texts of all substitutions; ``fault`` says what could not be read, or is empty."""

    commands: list[Simple] = field(default_factory=list)
    inner: list[str] = field(default_factory=list)
    fault: str = ""


def lex(text: str) -> Lexed:
    """Never raises. What bash would refuse as a syntax error sets ``fault``."""
    return _Lexer(text).run()


def decode_escapes(text: str) -> str:
    r"""What ``$'...'`` and printf make of ``\x72``, ``\162``, ``\n`` ..."""
    return _ANSI_C.sub(_one_escape, text)


def _one_escape(match: re.Match[str]) -> str:
    byte, four, eight, octal, control, other = match.groups()
    if byte or four or eight:
        code = int(byte or four or eight, 16)
        return chr(code) if code < 0x110000 else "\ufffd"
    if octal:
        return chr(int(octal, 8) & 0xFF)
    if control:
        return chr(ord(control) & 0x1F)
    return _ANSI_NAMES.get(other, other)


class _Lexer:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out = Lexed()
        self.simple = Simple()
        self.parts: list[str] = []
        self.in_word = False
        self.quoted = False
        self.redirect = ""
        self.inner_heredocs = 0
        self.heredocs: list[tuple[Simple, str, bool, bool]] = []

    def run(self) -> Lexed:
        text, end = self.text, len(self.text)
        while self.at < end:
            char = text[self.at]
            plain = _PLAIN.match(text, self.at)
            if plain is not None and not (plain[0].isdigit() and not self.in_word and _IO_NUMBER.match(text, self.at)):
                self.add(plain[0])
                self.at = plain.end()
            elif char in "'\"\\$`":
                self.quoting(char)
            elif char == "#" and not self.in_word:
                stop = text.find("\n", self.at)
                self.at = end if stop < 0 else stop
            elif char == "#":
                self.add("#")
                self.at += 1
            else:
                self.operator(char)
        self.end_command(piped=False)
        return self.out

    # words

    def add(self, text: str, *, quoted: bool = False) -> None:
        self.parts.append(text)
        self.in_word = True
        self.quoted = self.quoted or quoted

    def end_word(self) -> None:
        if not self.in_word:
            return
        word = Word("".join(self.parts), self.quoted)
        self.parts, self.in_word, self.quoted = [], False, False
        redirect, self.redirect = self.redirect, ""
        if not redirect:
            self.simple.words.append(word)
        elif redirect in ("<<", "<<-"):
            self.heredocs.append((self.simple, word.text, redirect == "<<-", word.quoted))
        elif redirect == "<<<":
            self.simple.stdin = word.text
        else:
            self.simple.redirects.append((redirect, word.text))

    def end_command(self, *, piped: bool) -> None:
        self.end_word()
        self.redirect = ""
        simple = self.simple
        if simple.words or simple.redirects or simple.stdin is not None:
            self.out.commands.append(simple)
            self.simple = Simple(piped=piped)
        else:
            simple.piped = piped

    # quotes and expansions

    def quoting(self, char: str) -> None:
        if char == "'":
            self.single()
        elif char == '"':
            self.double()
        elif char == "\\":
            following = self.text[self.at + 1 : self.at + 2]
            if following != "\n":
                self.add(following, quoted=True)
            self.at += 2
        else:
            self.expansion(in_quotes=False)

    def single(self) -> None:
        stop = self.text.find("'", self.at + 1)
        if stop < 0:
            self.out.fault = self.out.fault or "an unclosed quote"
            stop = len(self.text)
        self.add(self.text[self.at + 1 : stop], quoted=True)
        self.at = stop + 1

    def double(self) -> None:
        text = self.text
        self.add("", quoted=True)
        self.at += 1
        while self.at < len(text):
            char = text[self.at]
            plain = _QUOTED_PLAIN.match(text, self.at)
            if plain is not None:
                self.add(plain[0], quoted=True)
                self.at = plain.end()
            elif char == '"':
                self.at += 1
                return
            elif char == "\\":
                following = text[self.at + 1 : self.at + 2]
                self.add("" if following == "\n" else following if following in '$`"\\' else char + following, quoted=True)
                self.at += 2
            else:
                self.expansion(in_quotes=True)
        self.out.fault = self.out.fault or "an unclosed quote"

    def expansion(self, *, in_quotes: bool) -> None:
        text, at = self.text, self.at
        if text[at] == "`":
            stop = at + 1
            while stop < len(text) and text[stop] != "`":
                stop += 2 if text[stop] == "\\" else 1
            self.substitution(text[at + 1 : stop].replace("\\`", "`"), "$(", min(stop + 1, len(text)))
        elif text.startswith("$((", at):
            stop = self.closing(at + 2)
            self.nested(text[at + 2 : stop])
            self.add(text[at:stop])
            self.at = stop
        elif text.startswith("$(", at):
            stop = self.closing(at + 2)
            self.substitution(text[at + 2 : stop - 1], "$(", stop)
        elif text.startswith("${", at):
            stop = text.find("}", at)
            stop = len(text) if stop < 0 else stop + 1
            self.nested(text[at + 2 : stop])
            self.add(text[at:stop])
            self.at = stop
        elif text.startswith("$'", at) and not in_quotes:
            match = re.compile(r"\$'((?:[^'\\]|\\.)*+)'", re.DOTALL).match(text, at)
            self.at = len(text) if match is None else match.end()
            self.add(decode_escapes(text[at + 2 :] if match is None else match[1]), quoted=True)
        else:
            self.add("" if text.startswith('$"', at) and not in_quotes else "$")
            self.at += 1

    def substitution(self, body: str, opening: str, stop: int) -> None:
        self.out.inner.append(body)
        self.add(f"{opening}{body})")
        self.at = stop

    def nested(self, body: str) -> None:
        """Text that bash expands but does not run; only what it substitutes matters."""
        if "$(" in body or "`" in body:
            self.out.inner.append(f'echo "{body}"')

    def closing(self, at: int) -> int:
        """The index behind the ``)`` that closes what opened before ``at``."""
        text, depth, end = self.text, 1, len(self.text)
        while at < end:
            plain = _IN_PARENS.match(text, at)
            if plain is not None:
                at = plain.end()
                continue
            char = text[at]
            if char == "\\":
                at += 2
                continue
            if char in "'\"":
                stop = text.find(char, at + 1)
                while char == '"' and stop > 0 and text[stop - 1] == "\\":
                    stop = text.find(char, stop + 1)
                at = end if stop < 0 else stop + 1
                continue
            if char == "<":
                at = self.behind_heredoc(at)
                continue
            depth += 1 if char == "(" else -1
            at += 1
            if depth == 0:
                return at
        self.out.fault = self.out.fault or "an unclosed substitution"
        return end

    def behind_heredoc(self, at: int) -> int:
        """Quotes and parentheses in a here-document's body close nothing."""
        opening = _HEREDOC.match(self.text, at)
        if opening is None:
            return at + (3 if self.text.startswith("<<<", at) else 1)
        self.inner_heredocs += 1
        if self.inner_heredocs > _MAX_INNER_HEREDOCS:
            self.out.fault = self.out.fault or "too many here-documents"
            return len(self.text)
        body = re.compile(rf"\n\t*{opening[2]}(?=\n|\)|$)").search(self.text, opening.end())
        return opening.end() if body is None else body.end()

    # operators

    def operator(self, char: str) -> None:
        text, at = self.text, self.at
        redirect = _REDIRECT.match(text, at)
        if text.startswith(("<(", ">("), at):
            stop = self.closing(at + 2)
            self.substitution(text[at + 2 : stop - 1], text[at : at + 2], stop)
        elif text.startswith("<<", at):
            self.end_word()
            self.redirect = "<<<" if text.startswith("<<<", at) else "<<-" if text.startswith("<<-", at) else "<<"
            self.at += len(self.redirect)
        elif redirect is not None:
            self.end_word()
            self.redirect = redirect[0]
            self.at = redirect.end()
        elif char == "\n":
            self.end_command(piped=False)
            self.at += 1
            self.read_heredocs()
        elif char.isspace():
            self.end_word()
            self.at += 1
        elif char == "(" and self.in_word and self.parts[-1].endswith("="):
            stop = self.closing(at + 1)
            self.add(text[at:stop], quoted=True)
            self.at = stop
        else:
            self.end_command(piped=char == "|" and not text.startswith("||", at))
            self.at += 2 if text.startswith(("||", "&&", "|&", ";;"), at) else 1

    def read_heredocs(self) -> None:
        for simple, delimiter, strip_tabs, literal in self.heredocs:
            lines: list[str] = []
            closed = False
            while self.at < len(self.text) and not closed:
                stop = self.text.find("\n", self.at)
                stop = len(self.text) if stop < 0 else stop
                line = self.text[self.at : stop]
                line = line.lstrip("\t") if strip_tabs else line
                self.at = min(stop + 1, len(self.text))
                closed = line == delimiter
                if not closed:
                    lines.append(line)
            simple.stdin = "\n".join(lines)
            if not literal:
                self.nested(simple.stdin.replace('"', ""))
        self.heredocs = []
