"""Lists, pipelines and simple commands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from toolcrib.contract.regex import Regex
from tools.judge.shell.assignments import ALSO_ASSIGN, DECLARES, SPLIT_START
from tools.judge.shell.conditional import Conditionals
from tools.judge.shell.cursor import AND_OR_LIMIT, ENDED
from tools.judge.shell.errors import ShellTooComplex
from tools.judge.shell.heredocs import Heredoc
from tools.judge.shell.tree import (
    AndOr,
    Assignment,
    Command,
    Double,
    Function,
    Part,
    Pipeline,
    Plain,
    Quoted,
    Redirect,
    Redirected,
    Script,
    ScriptItem,
    Simple,
    Word,
)

# FIRST matches the first word of most commands, NEXT most other words: those without quotes, expansions or anything special.
FIRST = Regex(r"""(?:[^ \t\n;&|()<>\\'"$`#=\[][^ \t\n;&|()<>\\'"$`=\[]*+|\[\[)""" + ENDED)
NEXT = Regex(r"""[ \t]*+([^ \t\n;&|()<>\\'"$`#][^ \t\n;&|()<>\\'"$`]*+)(?=[ \t\n;&|)]|\Z)""")
CLOSER = Regex(r"(?:then|else|elif|fi|do|done|esac|\})" + ENDED)
REDIRECT = Regex(
    r"([0-9]++(?=[<>])|\{[A-Za-z_][A-Za-z0-9_]*(?:\[[^]\s;&|()<>\\'\"$`]*\])?\}(?=[<>]))?+"
    r"(?![<>]\()(<<<|<<-|<<|<&|<>|<|>>|>&|>\||>|&>>|&>)"
)
DESCRIPTOR = Regex(r"(?:[0-9]++|\{[A-Za-z_][A-Za-z0-9_]*(?:\[[^]]*\])?\})\Z")
PARENTHESES = Regex(r"\([ \t]*+\)")
PLAIN_FIRST = Regex(r"(?!(?:in|then|else|elif|fi|do|done|esac)\b)[a-zA-Z0-9_./]")
TIME_FIRST = "time before a compound command as the first thing in a command substitution"
LARGEST_DESCRIPTOR = 2**31 - 1


class Commands(Conditionals):
    __slots__ = ()

    compounds: ClassVar[Mapping[str, Callable[[Any], Command]]]
    """Readers of compound commands, by the reserved word or parenthesis that starts one."""
    no_compound: ClassVar[frozenset[str]]
    """Reserved words that start no compound command: the words that end one or occur inside one, and ``!``, ``time`` ..."""

    # -- lists

    def script(self) -> Script:
        self.deeper()
        text = self.text
        items: list[ScriptItem] = []
        lines: list[int] = []
        line = self.line_at(self.pos)
        while True:
            ended = self.blanks() == "\n"
            if not (char := self.newlines()) or char == ")":
                break
            if char == ";" and text[self.pos + 1 : self.pos + 2] in (";", "&"):
                break
            if CLOSER.match(text, self.pos):
                break
            line = self.line_at(self.pos) if ended or not items else line
            lines.append(line)
            command = self.and_or()
            char = text[self.pos : self.pos + 1]
            item = ScriptItem(command, char == "&")
            items.append(item)
            if char == "\n":
                continue
            if (char == ";" and text[self.pos + 1 : self.pos + 2] not in (";", "&")) or char == "&":
                self.operator(1)
            else:
                if char not in ("", ")", ";") and not self.reserved_next:
                    self.unexpected()
                break
            if self.blanks() == ";":
                self.unexpected()
        self.depth -= 1
        return Script(items, lines)

    def body(self) -> Script:
        """Read a script that must not be empty."""
        script = self.script()
        if not script.items:
            self.unexpected()
        return script

    def and_or(self) -> Command:
        left = self.pipeline()
        count = 0
        text = self.text
        while self.blanks() in ("&", "|"):
            op = text[self.pos : self.pos + 2]
            if op != "&&" and op != "||":
                break
            count += 1
            if count > AND_OR_LIMIT * self.limit:
                raise ShellTooComplex("depth", self.pos)
            self.operator(2)
            self.newlines()
            left = AndOr(left, op, self.pipeline())  # type: ignore[arg-type]  # one of the two, by the line above
        return left

    def pipeline(self) -> Command:
        negated = timed = opened = False
        text = self.text
        char = text[self.pos : self.pos + 1]
        if char == "!" or char == "t":
            opened = self.pos == self.opened and char == "t"
            negated, timed, alone = self.prefixes()
            if opened and timed and not alone and not PLAIN_FIRST.match(text, self.pos):
                self.fail(TIME_FIRST)
            if alone:
                return Pipeline([Simple([], [], [], self.at(self.pos), self.at(self.pos, True))], negated, timed)
        command = self.command()
        if opened and timed and (negated or not isinstance(command, Simple) or command.assignments):
            # Bash 5.2 runs the program ``time`` there, other versions don't. Both do the same only for a plain command.
            self.fail(TIME_FIRST)
        if self.blanks() != "|" or text.startswith("||", self.pos):
            return Pipeline([command], negated, timed) if negated or timed else command
        commands = [command]
        stderr_too: list[bool] = []
        while self.blanks() == "|" and not text.startswith("||", self.pos):
            both = text.startswith("|&", self.pos)
            stderr_too.append(both)
            self.operator(2 if both else 1)
            self.newlines()
            commands.append(self.command(piped=True))
        return Pipeline(commands, negated, timed, [*stderr_too, False])

    def prefixes(self) -> tuple[bool, bool, bool]:
        """Read ``!`` and ``time [-p] [--]``. The third result is True if nothing follows them."""
        negated = timed = False
        while True:
            if self.at_word("!"):
                negated = not negated
                self.pos += 1
            elif self.at_word("time"):
                timed = True
                self.pos += 4
                self.blanks()
                if self.at_word("-p"):
                    self.pos += 2
                    self.blanks()
                if self.at_word("--"):
                    self.pos += 2
            else:
                return negated, timed, False
            char = self.blanks()
            if char in ("", "\n", ";"):
                return negated, timed, True

    def at(self, pos: int, end: bool = False) -> int:
        return pos * self.scale + (self.last if end else self.first)

    # -- commands

    def command(self, piped: bool = False) -> Command:
        text, start = self.text, self.pos
        self.reserved_next = False
        match = FIRST.match(text, start)
        if match:
            name = match.group()
            read = self.compounds.get(name)
            if read is not None:
                self.pos = match.end()
                return self.compound_command(read)
            if name in self.no_compound and not (piped and name == "time"):
                return self.other_reserved(name)
            after = text[match.end() : match.end() + 1]
            if after not in ("(", "<", ">", "\\") or (after == "(" and PARENTHESES.match(text, match.end())):
                self.pos = match.end()
                word = Word([Plain(name)], self.at(start), self.at(self.pos, True))
                return self.simple([word], name, start)
        elif text.startswith("(", start):
            return self.compound_command(self.compounds["("])
        return self.simple([], "", start)

    def compound_command(self, read: Callable[[Any], Command]) -> Command:
        command = read(self)
        return self.redirected(command)

    def redirected(self, command: Command) -> Command:
        redirects: list[Redirect] = []
        while self.blanks() and (redirect := self.redirect()):
            redirects.append(redirect)
        if redirects:
            self.reserved_next = False
            return Redirected(command, redirects)
        return command

    def other_reserved(self, name: str) -> Command:
        raise NotImplementedError

    def simple(self, words: list[Word | Assignment], name: str, start: int) -> Command:
        """Read a simple command. ``words`` and ``name``: the first word, if it has been read already."""
        text, scale, first, last = self.text, self.scale, self.first, self.last
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        redirect: Redirect | None = None
        declares = name in DECLARES
        end = self.pos
        while True:
            match = NEXT.match(text, self.pos) if words and not declares else None
            if match:
                self.pos = end = match.end()
                words.append(Word([Plain(match[1])], match.start(1) * scale + first, end * scale + last))
                continue
            char = self.blanks()
            if not char or char in "\n;|)":
                break
            after_redirect, redirect = redirect is not None, self.redirect()
            if redirect:
                redirects.append(redirect)
            elif char == "&":
                break
            elif char == "(":
                return self.function(words, assignments, redirects)
            elif words:
                words.append(self.argument(declares, words[0]))
            else:
                got = self.word_or_assignment(leading=True, arrays=not (assignments and after_redirect))
                if isinstance(got, Assignment):
                    assignments.append(got)
                else:
                    self.no_split_reserved(got)
                    words.append(got)
                    declares = bool(DECLARES.intersection([static(got) or ""]))
            end = self.pos
        if not (words or assignments or redirects):
            self.unexpected()
        return Simple(assignments, words, redirects, start * scale + first, end * scale + last)

    def argument(self, declares: bool, first: Word | Assignment) -> Word | Assignment:
        if declares:
            return self.word_or_assignment(leading=False, arrays=True)
        word = self.word()
        if self.spliced:
            self.no_split_descriptor(word)
        if self.text.startswith("(", self.pos) and isinstance(first, Word) and static(first) in ALSO_ASSIGN:
            self.fail("a list as an argument of eval, let or alias")
        return word

    def no_split_reserved(self, word: Word) -> None:
        if not self.spliced:
            return
        text = static(word)
        if text in self.no_compound or text in self.compounds or (text and SPLIT_START.match(text)):
            self.fail("a reserved word or an assignment is split by a line continuation")
        self.no_split_descriptor(word)

    def no_split_descriptor(self, word: Word) -> None:
        if self.text[self.pos : self.pos + 1] in ("<", ">") and DESCRIPTOR.match(static(word) or ""):
            self.fail("a file descriptor is split by a line continuation")

    def function(self, words: list[Word | Assignment], assignments: list[Assignment], redirects: list[Redirect]) -> Command:
        """Read ``name () body``."""
        if len(words) != 1 or assignments or redirects or not isinstance(words[0], Word):
            self.unexpected()
        name = static(words[0])
        if not name:
            self.fail("a function's name with quotes or expansions")
        self.operator(1)
        if self.blanks() != ")":
            self.unexpected()
        self.pos += 1
        return self.function_body(name)

    def function_body(self, name: str) -> Command:
        self.newlines()
        return Function(name, self.compound_only())

    def compound_only(self) -> Command:
        raise NotImplementedError

    # -- redirects

    def redirect(self) -> Redirect | None:
        """Read the redirect that starts here; return None if there is none."""
        text, start = self.text, self.pos
        match = REDIRECT.match(text, start)
        if not match or (match[1] and self.too_large(match[1])):
            return None
        op = match[2]
        descriptor = match[1]
        fd: int | str | None = int(descriptor) if descriptor and descriptor[0] != "{" else descriptor
        self.pos = match.end(1) if descriptor else start
        self.operator(len(op))
        self.blanks()
        target = self.word()
        if self.text[self.pos : self.pos + 1] in ("<", ">"):
            text_of = static(target) or ""
            if DESCRIPTOR.match(text_of) and (op not in ("<&", ">&") or text_of[0] == "{" or self.spliced):
                self.unexpected()
        redirect = Redirect(op, target, fd)
        if op == "<<" or op == "<<-":
            self.heredoc(redirect, target, start)
        return redirect

    def too_large(self, descriptor: str) -> bool:
        """Return whether the number is too large for an int; bash then reads it as a word."""
        return descriptor[0] != "{" and (len(descriptor) > 18 or int(descriptor) > LARGEST_DESCRIPTOR)

    def heredoc(self, redirect: Redirect, word: Word, start: int) -> None:
        delimiter, quoted = [], False
        for part in word.parts:
            text = constant(part)
            if text is None:
                self.fail("a here-document's delimiter with an expansion", start)
            delimiter.append(text)
            quoted = quoted or not isinstance(part, Plain)
        text = "".join(delimiter)
        if "\n" in text:
            self.fail("a here-document's delimiter with a newline", start)
        self.heredocs.append(Heredoc(redirect, text, quoted, redirect.op == "<<-", start))


def constant(part: Part) -> str | None:
    """Return the text of a part that needs no expansion; None for another part."""
    if isinstance(part, Plain | Quoted):
        return part.text
    if isinstance(part, Double):
        texts = [constant(inner) for inner in part.parts]
        return None if None in texts else "".join(text for text in texts if text is not None)
    return None


def static(word: Word) -> str | None:
    """Return the text of a word if it has neither quotes nor expansions, otherwise None."""
    if len(word.parts) == 1 and isinstance(word.parts[0], Plain):
        return word.parts[0].text
    return None
