"""Expand words to arguments, in bash's order: braces, tilde, parameters and substitutions, splitting, quote removal."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import arithmetic, braces, parameters, patterns
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, WHOLE, Elastic, Taint, Value, changed, joined, listed, plain, unknown
from tools.judge.meaning.variables import ManyWords, any_number, home, scalar
from tools.judge.meaning.walk import Walker
from tools.judge.shell.tree import (
    Arithmetic,
    Assignment,
    CommandSub,
    Compound,
    Double,
    ExtGlob,
    Parameter,
    Part,
    Plain,
    ProcessSub,
    Quoted,
    Word,
)

_SPECIAL = Regex("[{~*?[\ufffc]")
_ACTIVE = Regex(r"[*?]|\[.*\]", re.DOTALL)
_BLANKS = " \t\n"
_WORD_COST = 64
"""Number of characters that a word costs in addition to its own, so that a list that grows in a loop reaches a limit too."""
_AFTER_COLON = Regex(r"(?<=:)~(?=[/:]|$)")


def fields(it: Walker, state: State, words: Iterable[Word | Assignment]) -> list[Value]:
    """Return the arguments that ``words`` become. An Assignment (of ``declare``) becomes ``name=value``, unsplit."""
    out: list[Value] = []
    for word in words:
        if isinstance(word, Assignment):
            out += _assignments(it, state, word)
            continue
        parts = word.parts
        if (constant := fixed(parts)) is not None:
            out.append(constant)
            continue
        if braces.has_braces(parts):
            try:
                expanded = braces.expand(parts)
            except braces.TooMany:
                it.fault("size", "a brace expansion gives too many words")
                out.append(unknown())
                continue
            for one in expanded:
                _field(it, state, one, word, out)
        else:
            _field(it, state, parts, word, out)
    return out


def fixed(parts: Sequence[Part]) -> Value | None:
    """Return the argument that a word of these parts becomes in any state; None if it depends on the state."""
    part = parts[0] if len(parts) == 1 else None
    if isinstance(part, Quoted) or (isinstance(part, Plain) and not _SPECIAL.search(part.text)):
        return _constant(part.text)
    return None


def _constant(text: str) -> Value:
    return Value(text, Taint.UNKNOWN) if HOLE in text else Value(text)


def _field(it: Walker, state: State, parts: Sequence[Part], word: Word, out: list[Value]) -> None:
    builder = _Builder(it, state)
    builder.parts(parts, split=False)
    builder.end()
    if len(builder.out) == 1 and HOLE in builder.out[0].text and not builder.out[0].shown:
        builder.out[0] = builder.out[0]._replace(shown=it.context.source(word))
    out += builder.out


def _assignments(it: Walker, state: State, item: Assignment) -> list[Value]:
    """Return the arguments that an argument of ``declare`` becomes: braces in it expand, as in any argument."""
    if not braces.has_braces(item.value.parts):
        return [assignment_text(it, state, item)]
    try:
        expanded = braces.expand(item.value.parts)
    except braces.TooMany:
        it.fault("size", "a brace expansion gives too many words")
        return [Value(f"{item.name}={HOLE}", Taint.UNKNOWN)]
    if len(expanded) == 1:
        return [assignment_text(it, state, item)]
    out: list[Value] = []
    for parts in expanded:  # the result of braces is not an assignment any more: it is split
        _field(it, state, [Plain(f"{item.name}{'+' if item.append else ''}="), *parts], item.value, out)
    return out


def assignment_text(it: Walker, state: State, item: Assignment) -> Value:
    if any(type(part) is Compound for part in item.value.parts):
        return Value(f"{item.name}=({HOLE})", Taint.UNKNOWN, shown=item.name)
    value = single(it, state, item.value, assigned=True)
    return value._replace(text=f"{item.name}{'+' if item.append else ''}={value.text}")


def single(it: Walker, state: State, word: Word, *, assigned: bool = False) -> Value:
    """Return a word that is not split: a value, a redirect's target, a heredoc's body."""
    parts = word.parts
    if len(parts) == 1:
        part = parts[0]
        if isinstance(part, Quoted):
            return _constant(part.text)
        if isinstance(part, Plain) and "~" not in part.text:
            return _constant(part.text)
    pieces: list[Value] = []
    for index, part in enumerate(parts):
        if isinstance(part, Plain):
            text = part.text
            if index == 0 and text.startswith("~"):
                text = tilde(state, it, text, more=len(parts) > 1)
            if assigned and ":~" in text:
                text = _AFTER_COLON.sub(lambda _match: tilde(state, it, "~", more=False), text)
            pieces.append(_constant(text))
        elif isinstance(part, Quoted):
            pieces.append(_constant(part.text))
        else:
            pieces.append(_whole(it, state, part))
    value = pieces[0] if len(pieces) == 1 else joined(pieces)
    it.limits.spend(len(value.text))
    return value._replace(shown=it.context.source(word)) if HOLE in value.text and not value.shown else value


def compared(it: Walker, state: State, word: Word) -> Value:
    """Return the subject of ``case`` or a word of ``[[``: with ``"$@"`` in it, bash splits it and joins it again."""
    if any(isinstance(part, Double) and any(map(_is_list, part.parts)) for part in word.parts):
        return listed(fields(it, state, [word]), " ")
    return single(it, state, word)


def _is_list(part: Part) -> bool:
    return isinstance(part, Parameter) and (part.name == "@" or (part.index is not None and part.index.parts == [Plain("@")]))


def _whole(it: Walker, state: State, part: Part) -> Value:
    """Expand a part of a word without splitting the result."""
    if isinstance(part, Double):
        return joined([_whole(it, state, inner) for inner in part.parts])
    if isinstance(part, Plain | Quoted):
        return _constant(part.text)
    got = expansion(it, state, part, quoted=True)
    if isinstance(got, Word):
        return joined([_whole(it, state, inner) for inner in got.parts])
    if isinstance(got, ManyWords):
        between = first_of_ifs(state) if got.star else " "
        return listed(got.values, between)
    return got


def first_of_ifs(state: State) -> str:
    ifs = separators(state)
    return HOLE if ifs is None else ifs[:1]


def pattern(it: Walker, state: State, word: Word) -> Value:
    """Return a word as a pattern, with quoted text escaped."""
    return joined([_pattern_part(it, state, part, quoted=False) for part in word.parts])


def _pattern_part(it: Walker, state: State, part: Part, *, quoted: bool) -> Value:
    if isinstance(part, Plain):
        return _constant(patterns.escape(part.text) if quoted else part.text)
    if isinstance(part, Quoted):
        return _constant(patterns.escape(part.text))
    if isinstance(part, Double):
        return joined([_pattern_part(it, state, inner, quoted=True) for inner in part.parts])
    if isinstance(part, ExtGlob):
        inner_words = [pattern(it, state, word) for word in part.words]
        got = joined(inner_words, "|")
        return got._replace(text=f"{part.kind}({got.text})")
    got = _whole(it, state, part)
    return got._replace(text=patterns.escape(got.text)) if quoted else got


def expansion(it: Walker, state: State, part: Part, *, quoted: bool) -> Value | ManyWords | Word:
    """Expand ``$...`` to one value, several, or a word to expand in its place."""
    if isinstance(part, Parameter):
        return parameters.evaluate(it, state, part, quoted=quoted)
    if isinstance(part, CommandSub):
        return it.substitute(part.body, state)
    if isinstance(part, Arithmetic):
        number = arithmetic.evaluate(it, state, single(it, state, part.text))
        return Value(str(number)) if number is not None else unknown()
    if isinstance(part, ProcessSub):
        return it.process(part, state)
    if isinstance(part, ExtGlob):
        return _pattern_part(it, state, part, quoted=False)
    return unknown()


def tilde(state: State, it: Walker, text: str, *, more: bool) -> str:
    """Expand a text that begins with a tilde; ``more``: the word continues after it."""
    name, slash, rest = text[1:].partition("/")
    if more and not slash:
        return text
    if HOLE in name:  # in partly unknown source, such as an argument of eval: the unknown part may be empty, or a user's name
        return HOLE + slash + rest
    if not name:
        return home(it, state) + slash + rest
    if name in ("+", "-"):
        return (scalar(it, state, "PWD" if name == "+" else "OLDPWD").text or text) + slash + rest
    if name == "root":
        return "/root" + slash + rest
    if name == it.now.user:
        return (it.now.home or f"~{name}") + slash + rest
    return text


def separators(state: State) -> str | None:
    """Return IFS, None if unknown."""
    var = state.vars.get("IFS")
    if var is None:
        return _BLANKS
    value = var.scalar()
    if value is None:
        return _BLANKS
    return value.text if HOLE not in value.text else None


@functools.lru_cache(maxsize=64)
def splitter(ifs: str) -> re.Pattern[str]:
    blanks = re.escape("".join(char for char in ifs if char in _BLANKS))
    others = re.escape("".join(char for char in ifs if char not in _BLANKS))
    if not others:
        return re.compile(f"[{blanks}]+")
    if not blanks:
        return re.compile(f"[{others}]")
    return re.compile(f"[{blanks}]*[{others}][{blanks}]*|[{blanks}]+")


class _Builder:
    """Builds the arguments of one word."""

    __slots__ = ("active", "elastic", "exists", "it", "loose", "out", "shown", "state", "taint", "texts")

    def __init__(self, it: Walker, state: State) -> None:
        self.it = it
        self.state = state
        self.out: list[Value] = []
        self.texts: list[str] = []
        self.taint = Taint.NONE
        self.active = False
        self.exists = False
        self.elastic = False
        self.loose = 0

    def add(self, text: str, taint: Taint, *, quoted: bool) -> None:
        if text:
            if self.loose:
                self.rejoin()
            self.texts.append(text)
            self.exists = True
            if not quoted and not self.active and _ACTIVE.search(text):
                self.active = True
            if HOLE in text:
                taint |= Taint.UNKNOWN
            if taint:
                self.taint |= taint

    def rejoin(self) -> None:
        """Join the last words of a list, which may be absent, with the text after them."""
        joint = self.out[-self.loose :]
        del self.out[-self.loose :]
        self.loose = 0
        self.texts[:0] = [value.text for value in joint]
        for value in joint:
            self.taint |= value.taint
        self.elastic = True

    def end(self, *, forced: bool = False) -> None:
        if self.exists or forced:
            text = plain("".join(self.texts))
            self.it.limits.spend(len(text) + _WORD_COST)
            if self.taint & WHOLE and len(self.texts) > 1:
                self.taint &= ~WHOLE
            self.out.append((Elastic if self.elastic else Value)(text, self.taint, self.active))
        self.texts = []
        self.taint = Taint.NONE
        self.active = self.exists = self.elastic = False
        self.loose = 0

    def many(self, values: Sequence[Value], *, quoted: bool) -> None:
        """Add the words of a list: the first is joined to the text before, the last to the text after it."""
        sure = not self.exists
        trailing = 0
        for index, value in enumerate(values):
            if index and sure:
                self.end(forced=quoted)
            if quoted:
                self.elastic = self.elastic or any_number(value)
                self.add(value.text, value.taint, quoted=True)
                self.exists = True
            else:
                self.split(value)
            trailing = trailing + 1 if value.text == HOLE else 0
            sure = sure or not trailing
        self.loose = trailing if 0 < trailing < len(values) else 0

    def parts(self, parts: Sequence[Part], *, split: bool) -> None:
        """Add parts of a word. ``split``: plain text is the result of an expansion (``${x:-a b}``)."""
        bracket = ""
        for index, part in enumerate(parts):
            if isinstance(part, Plain):
                text = part.text
                if index == 0 and text.startswith("~"):
                    text = tilde(self.state, self.it, text, more=len(parts) > 1)
                if split:
                    self.split(Value(text))
                else:
                    self.add(text, Taint.NONE, quoted=False)
                if "[" in text:
                    bracket = text
                elif bracket and "]" in text:
                    self.active = True
            elif isinstance(part, Quoted):
                self.add(part.text, Taint.NONE, quoted=True)
                self.exists = True
            elif isinstance(part, Double):
                self.double(part.parts)
            else:
                self.expanded(expansion(self.it, self.state, part, quoted=False))
                if isinstance(part, ExtGlob):
                    self.active = True

    def expanded(self, got: Value | ManyWords | Word) -> None:
        if isinstance(got, Word):
            self.parts(got.parts, split=True)
        elif isinstance(got, ManyWords):
            self.many(got.values, quoted=False)
        else:
            self.split(got)

    def double(self, parts: Sequence[Part]) -> None:
        empty_list = False
        for part in parts:
            if isinstance(part, Plain | Quoted):
                self.add(part.text, Taint.NONE, quoted=True)
                continue
            got = expansion(self.it, self.state, part, quoted=True)
            if isinstance(got, Word):
                self.double(_flat(got.parts))
            elif isinstance(got, ManyWords) and not got.star:
                empty_list = empty_list or not got.values
                self.many(got.values, quoted=True)
            elif isinstance(got, ManyWords):
                value = listed(got.values, first_of_ifs(self.state))
                self.add(value.text, value.taint, quoted=True)
                self.exists = True
            else:
                self.add(got.text, got.taint, quoted=True)
                self.exists = True
        if not empty_list:
            self.exists = True

    def split(self, value: Value) -> None:
        """Add unquoted text of an expansion."""
        text = value.text
        if not text:
            return
        ifs = separators(self.state)
        if value.taint & WHOLE and (not ifs or splitter(ifs).search(text) is not None):
            value = changed(value)
        if HOLE in text and (text != HOLE or not value.taint & Taint.OURS):  # a process id is one word
            self.elastic = True
        if ifs is None:
            self.add(HOLE, value.taint | Taint.UNKNOWN, quoted=True)
            return
        if ifs == "":
            self.add(text, value.taint, quoted=False)
            return
        at = 0
        for match in splitter(ifs).finditer(text):
            if match.start() > at:
                self.add(text[at : match.start()], value.taint, quoted=False)
            self.end(forced=any(char not in _BLANKS for char in match[0]))
            at = match.end()
            self.elastic = HOLE in text
        if at < len(text):
            self.add(text[at:], value.taint, quoted=False)


def _flat(parts: Sequence[Part]) -> list[Part]:
    """Return the parts without quotes, for an operator's word inside double quotes: its text counts as quoted anyway."""
    out: list[Part] = []
    for part in parts:
        out += part.parts if isinstance(part, Double) else [part]
    return out
