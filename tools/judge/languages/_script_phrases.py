"""Expressions of the script languages: operators, lists, assignments."""

from __future__ import annotations

import re

from tools.judge.languages._script_language import Language, Ref, Thing, formatted, number, text
from tools.judge.languages._script_tokens import Token
from tools.judge.languages._tell import Tell, TooMuch, join
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

SKIPPED = frozenset(
    re.findall(
        r"\w+",
        """my our local let var const return await new not static public private async yield raise throw void typeof then
    do begin echo print puts p say p pp defer global state use include_once scalar""",
    )
)
_END = Token("end", "")
_SKIP = object()
MAX_DEPTH = 60
MAX_STEPS = 60_000
MAX_TEXT = 200_000

_SPAWNERS = frozenset({"fork", "forkpty", "pcntl_fork"})
_BRAKES = frozenset(
    {"wait", "waitpid", "accept", "sleep", "exit", "last", "break", "pcntl_wait", "pcntl_waitpid", "listen", "return"}
)


class Phrases:
    def __init__(self, tell: Tell, language: Language, found: list[Token], names: dict[str, Thing], depth: int = 0) -> None:
        self.tell = tell
        self.language = language
        self.tokens = found
        self.at = 0
        self.names = names
        self.depth = depth
        self.steps = MAX_STEPS
        self.args: list[Value] = []
        self.each: Thing = None
        """An element of what a callback goes through."""
        self.connected: tuple[Value, Value] | None = None
        self.shells = False

    # -- what Reader adds ----------------------------------------------------------------------------------------

    def follow(self, thing: Thing, name: str = "") -> Thing:
        raise NotImplementedError

    def _name(self, name: str) -> Thing:
        raise NotImplementedError

    def string(self, token: Token) -> Value:
        raise NotImplementedError

    def tell_shell(self, command: Value) -> Value:
        raise NotImplementedError

    def start(self, command: Value) -> None:
        raise NotImplementedError

    # -- statements ----------------------------------------------------------------------------------------------

    def program(self) -> None:
        while self.at < len(self.tokens):
            before = self.at
            self.expression()
            if self.at == before:
                self.at += 1

    def finish(self) -> None:
        self.tell.flush()
        if self.connected is not None and self.shells:
            self.tell.reverse_shell(*self.connected)
        if self.connected is not None and self.tell.reads_secret and self.language.lexicon.name in ("perl", "php"):
            # what is printed to a connection is not followed there
            self.tell.send_to(Value(HOLE, Taint.SECRET | Taint.UNKNOWN), *self.connected)
        names = {token.raw.rpartition(".")[2] for token in self.tokens if token.kind == "id"}
        if names & _SPAWNERS and names & {"while", "loop", "for", "until"} and not names & _BRAKES:
            self.tell.forkbomb()

    def peek(self, ahead: int = 0) -> Token:
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else _END

    def op(self, *raws: str) -> bool:
        token = self.peek()
        return token.kind == "op" and token.raw in raws

    def skip_lines(self) -> None:
        while self.op("\n"):
            self.at += 1

    # -- expressions ---------------------------------------------------------------------------------------------

    def expression(self) -> Thing:
        self.steps -= 1
        self.depth += 1
        if self.depth > MAX_DEPTH or self.steps < 0:
            raise TooMuch("depth" if self.steps >= 0 else "steps")
        try:
            start = self.at
            thing = self.primary()
            while True:
                token = self.peek()
                if token.kind != "op" or (token.raw == "<" and self.language.reading and self._is_reading()):
                    return thing
                if token.raw in ("=", "||=", "+=", ".=", "|=") and self.at > start:
                    thing = self._assign(start, thing)
                elif token.raw in self.language.concat:
                    self.at += 1
                    self.skip_lines()
                    thing = self._concat(thing, self.primary())
                elif token.raw in (
                    "?",
                    "||",
                    "&&",
                    "==",
                    "!=",
                    "===",
                    "!==",
                    "*",
                    "%",
                    "=~",
                    "!~",
                    "|",
                    "<",
                    "<=",
                    ">=",
                    "-",
                    "/",
                    "=>",
                ):
                    thing = self._other(token.raw, thing)
                else:
                    return thing
        finally:
            self.depth -= 1

    def _other(self, raw: str, thing: Thing) -> Thing:
        self.at += 1
        self.skip_lines()
        if raw == "=>" and self.op("{"):
            self.block()
            return ANYTHING
        right = self.primary()
        if raw in ("||", "=>"):
            return thing if raw == "||" and isinstance(thing, Value) and thing.known else right
        if raw == "%" and isinstance(thing, Value):
            return formatted(thing, right if isinstance(right, list) else [right])
        if raw == "*" and isinstance(thing, Value) and isinstance(right, int) and len(thing.text) * right < MAX_TEXT:
            return thing._replace(text=thing.text * right)
        return ANYTHING

    def _assign(self, start: int, old: Thing) -> Thing:
        raw = self.peek().raw
        target = self.tokens[start : self.at]
        self.at += 1
        self.skip_lines()
        thing = self.expression()
        ids = [token.raw for token in target if token.kind == "id" and token.raw not in SKIPPED]
        if raw in ("+=", ".=") and not isinstance(thing, int):
            thing = self._concat(old, thing)
        destructured = any(token.raw in "{[(" for token in target if token.kind == "op")
        if len(ids) == 1 and not destructured:
            self.names[ids[0]] = thing
        elif destructured and isinstance(thing, Ref):
            self._destructure(target, thing)
        elif destructured and target[-1].raw == ")" and isinstance(thing, list):
            self.names.update(zip(ids, thing, strict=False))
        elif destructured and len(ids) > 1 and target[0].kind != "id":
            self.names.update(dict.fromkeys(ids, ANYTHING))
        return thing

    def _destructure(self, target: list[Token], thing: Ref) -> None:
        """``const {exec: run, rmSync} = require(...)``"""
        i = 0
        while i < len(target):
            if target[i].kind == "id" and target[i].raw not in SKIPPED:
                name = alias = target[i].raw
                if i + 2 < len(target) and target[i + 1].raw in (":", "as") and target[i + 2].kind == "id":
                    alias = target[i + 2].raw
                    i += 2
                self.names[alias] = Ref(f"{thing.path}.{name}")
            i += 1

    def _concat(self, left: Thing, right: Thing) -> Thing:
        if isinstance(left, int) and isinstance(right, int) and "+" in self.language.concat:
            return left + right
        if isinstance(left, list) and isinstance(right, list):
            return left + right
        joined = join([text(left), text(right)])
        return joined if len(joined.text) <= MAX_TEXT else ANYTHING

    def primary(self) -> Thing:
        self.steps -= 1
        if self.steps < 0:
            raise TooMuch("steps")
        token = self.peek()
        if token.kind == "op":
            return self._bracket(token.raw)
        self.at += 1
        if token.kind == "str":
            return self.follow(self.string(token))
        if token.kind == "cmd":
            command = self.string(token)
            self.start(command)
            return self.follow(self.tell_shell(command))
        if token.kind == "words":
            return self.follow([Value(word) for word in token.raw.split()])
        if token.kind == "num":
            return self.follow(number(token.raw))
        if token.kind == "id":
            return self._name(token.raw)
        if token.kind == "re" and self.language.in_patterns is not None:
            for match in self.language.in_patterns.finditer(token.raw):
                self.tell.code(self.language.lexicon.name, Value(match[1]))
        return ANYTHING

    def _bracket(self, raw: str) -> Thing:
        if raw in ("(", "["):
            self.at += 1
            items = self.arguments(")" if raw == "(" else "]")
            if raw == "(" and self.op("=>"):
                return ANYTHING
            return self.follow(items if raw == "[" or len(items) != 1 else items[0])
        if raw == "{":
            return self.mapping()
        if raw == "<" and self.language.reading and (size := self._is_reading()):
            self.at += size
            return self.follow(Ref(self.language.reading))
        if raw in ("!", "-", "+", "\\", "&", "@", "...", "*", "~", "$", "#", "<"):
            self.at += 1
            thing = self.primary()
            return -thing if raw == "-" and isinstance(thing, int) else thing if raw not in ("!", "-") else ANYTHING
        return ANYTHING

    def _is_reading(self) -> int:
        """Return how many tokens long ``<>`` or ``<ARGV>`` is; 0 where there is none."""
        if self.peek(1).raw == ">":
            return 2
        return 3 if self.peek(1).raw in ("ARGV", "$ARGV") and self.peek(2).raw == ">" else 0

    def arguments(self, closer: str) -> list[Thing]:
        """Read the arguments behind an opening bracket: expressions up to the closing one, commas between them."""
        found: list[Thing] = []
        while self.at < len(self.tokens):
            token = self.peek()
            if token.kind == "op":
                if token.raw == closer:
                    self.at += 1
                    return found
                if token.raw in (",", "\n", ";", ":", "&&", "||", "|"):
                    self.at += 1
                    continue
                if token.raw in (")", "]", "}"):
                    return found
            before = self.at
            thing = self.expression()
            if self.at == before:
                self.at += 1
                continue
            if thing is not _SKIP:
                found.append(thing)
        return found

    def mapping(self) -> Thing:
        """``{key: value}``; a block in its place is read just the same. Keys are names or texts."""
        self.at += 1
        found: dict[str, Thing] = {}
        while self.at < len(self.tokens):
            token = self.peek()
            if token.kind == "op" and token.raw == "}":
                self.at += 1
                break
            if token.kind in ("id", "str") and self.peek(1).raw in (":", "=>", "=") and self.peek(1).kind == "op":
                key = token.raw
                self.at += 2
                self.skip_lines()
                found[key.strip(":")] = self.expression()
                if self.peek(-2).raw == "=" or self.language.lexicon.name == "ruby":
                    self.names.setdefault(key, found[key.strip(":")])
                continue
            before = self.at
            self.expression()
            if self.at == before:
                self.at += 1
        return found

    def block(self) -> None:
        self.at += 1
        while self.at < len(self.tokens):
            if self.op("}"):
                self.at += 1
                return
            before = self.at
            self.expression()
            if self.at == before:
                self.at += 1
