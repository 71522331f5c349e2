"""Calls in perl, ruby, JavaScript, PHP and Lua: a flat reading of expressions that follows names and constant texts.

Every branch, loop and function body counts as run once. What a language's calls mean stands in its own module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._script_language import Language, Ref, Thing, text, value
from tools.judge.languages._script_phrases import MAX_DEPTH, SKIPPED, Phrases
from tools.judge.languages._script_tokens import Token, tokens, unescaped
from tools.judge.languages._tell import Tell, TooMuch, join
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

_STOPS = frozenset(
    re.findall(
        r"\w+", """if unless while until for foreach and or xor elsif else elseif end rescue ensure in of as do then when"""
    )
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "cmd.exe", "cmd", "powershell", "powershell.exe"})
_SPAWNERS = frozenset({"fork", "forkpty", "pcntl_fork"})
_BRAKES = frozenset(
    {"wait", "waitpid", "accept", "sleep", "exit", "last", "break", "pcntl_wait", "pcntl_waitpid", "listen", "return"}
)


_NETWORK = Regex(r"(?:https?|net|tls|axios|new net|Net::HTTP)\b|fetch$")


def read_script(code: Code, args: Sequence[Value], sink: Sink, language: Language) -> bool:
    found = tokens(code.text.text, language.lexicon)
    if found is None:
        return False
    reader = ScriptReader(Tell(sink), language, found, {})
    reader.args = list(args)
    try:
        reader.program()
        reader.finish()
    except (TooMuch, RecursionError):
        reader.tell.flush()
        return False
    return True


class ScriptReader(Phrases):
    """A reader that walks over the tokens once and reports its findings to ``tell``."""

    # -- names and calls -----------------------------------------------------------------------------------------

    def _name(self, name: str) -> Thing:
        if name in ("function", "sub", "fn", "lambda", "def") or (name == "async" and self.peek().raw == "function"):
            return self._function()
        if name in ("for", "foreach"):
            return self._loop()
        if self.op("=>") and self.language.lexicon.name != "javascript":
            return Value(name)
        if name in _STOPS and not self._does_file(name):
            return ANYTHING
        if name in SKIPPED and name not in self.names and not self._does_file(name) and not self.op("=", "."):
            return self._skipped(name)
        if (self.op("=>") and self.peek(1).kind == "op") or (self.op("=>") and self.language.lexicon.name == "javascript"):
            self.names[name] = self.each if self.each is not None else ANYTHING
            return ANYTHING
        if name in self.names:
            return self.follow(self.names[name], name)
        if name[:1] == ":" and len(name) > 1:
            return self.follow(Value(name[1:]), name)
        return self.follow(Ref(self.language.aliases.get(name, name)), name)

    def _does_file(self, name: str) -> bool:
        """perl: ``do "./x.pl"``, which is no ``do {...}``."""
        after = self.peek()
        return name == "do" and "do" in self.language.calls and (after.kind in ("str", "id") or after.raw == "(")

    def _skipped(self, name: str) -> Thing:
        token = self.peek()
        if token.kind == "op" and token.raw in ("\n", ";", ")", "}", ","):
            return ANYTHING
        if name == "new" and token.kind == "id":
            self.at += 1
            return self.follow(Ref("new " + token.raw), token.raw)
        return self.primary()

    def _function(self) -> Thing:
        if self.peek().kind == "id":
            self.at += 1
        if self.op("("):
            self.at += 1
            while self.at < len(self.tokens) and not self.op(")", "{"):
                token = self.peek()
                if token.kind == "id":
                    self.names[token.raw] = self.each if self.each is not None else ANYTHING
                self.at += 1
            self.at += self.op(")")
        self.skip_lines()
        if self.op("{"):
            self.block()
        return ANYTHING

    def _loop(self) -> Thing:
        """``for (const f of list)``, ``foreach ($list as $f)``, ``for my $f (list)``, ``for f in list``."""
        at = self.at
        inside = [token for token in self.tokens[at : at + 8] if token.raw not in ("(", "await")]
        ids = [token.raw for token in inside if token.kind == "id" and token.raw not in SKIPPED]
        while self.peek().kind == "id" and self.peek().raw in ("my", "our", "each", "const"):
            self.at += 1
        if self.peek().kind == "id" and self.peek(1).raw == "(" and self.language.lexicon.name == "perl":
            name = self.peek().raw
            self.at += 1
            self.names[name] = self.element(self.primary())
        elif len(ids) > 1 and ids[1] in ("of", "in"):
            while self.at < len(self.tokens) and self.peek().raw not in ("of", "in"):
                self.at += 1
            self.at += 1
            self.names[ids[0]] = self.element(self.expression())
        elif self.op("("):
            self.at += 1
            source = self.expression()
            if self.peek().raw == "as" and self.peek(1).kind == "id":
                self.names[self.peek(1).raw] = self.element(source)
                self.at += 2
        return ANYTHING

    def element(self, thing: Thing) -> Thing:
        if isinstance(thing, list):
            return thing[0] if len(thing) == 1 else ANYTHING
        return thing if isinstance(thing, Value) and thing.pattern else Value(HOLE, text(thing).taint | Taint.UNKNOWN)

    def follow(self, thing: Thing, name: str = "") -> Thing:
        """Follow a name or value through the members, calls and indexes behind it."""
        while True:
            token = self.peek()
            if token.kind == "op" and token.raw in self.language.separators and self._member(token.raw):
                member = self.peek(1).raw
                self.at += 2
                thing = self._method(thing, member)
            elif token.kind == "op" and token.raw == "(" and isinstance(thing, Ref | dict):
                self.at += 1
                thing = self.call(thing, self._given(thing))
            elif token.kind == "op" and token.raw == "(" and name[:1] == "$" and isinstance(thing, Value):
                if not thing.known:
                    self.tell.code(self.language.lexicon.name, Value(f"{HOLE}(...)", thing.taint | Taint.UNKNOWN))
                self.at += 1
                thing = self.call(Ref(thing.text.lower()), self.arguments(")"))
            elif (
                token.kind == "op"
                and token.raw == "{"
                and self.language.lexicon.name == "perl"
                and name in ("$ENV", "$main::ENV")
            ):
                self.at += 1
                given = self.arguments("}")
                thing = self.language.calls["$ENV"](
                    self, [Value(given[0].path) if isinstance(given[0], Ref) else given[0]] if given else [], thing
                )
            elif token.kind == "op" and token.raw == "[" and not isinstance(thing, int):
                self.at += 1
                thing = self._index(thing, self.arguments("]"))
            elif token.raw == "{" and token.kind == "op" and name in self.language.indirect and isinstance(thing, Ref):
                self.at += 1
                thing = self.call(thing, [self.arguments("}"), *self._bare()[1:]])
            elif isinstance(thing, Ref) and self._starts_bare(token, thing):
                thing = self.call(thing, self._bare())
            else:
                break
        if isinstance(thing, Ref) and self.language.bare and thing.path in self.language.calls and thing.path[:1] != "$":
            return self.call(thing, [])
        return thing

    def _member(self, raw: str) -> bool:
        after = self.peek(1)
        if raw in self.language.concat and self.language.lexicon.name in ("perl", "php"):
            return False
        if raw == ":" and self.language.lexicon.name != "lua":
            return False
        return after.kind == "id"

    def _given(self, function: Thing) -> list[Thing]:
        """Arguments of a call; a callback that is given to something of the network gets what came over it."""
        if not isinstance(function, Ref) or _NETWORK.match(function.path) is None:
            return self.arguments(")")
        outer, self.each = self.each, Value(HOLE, Taint.REMOTE | Taint.UNKNOWN)
        try:
            return self.arguments(")")
        finally:
            self.each = outer

    def _method(self, owner: Thing, member: str) -> Thing:
        if isinstance(owner, Ref):
            return Ref(f"{owner.path}.{member}")
        outer, self.each = self.each, self.element(owner)
        try:
            given: list[Thing] = []
            if self.op("("):
                self.at += 1
                given = self.arguments(")")
            elif self.language.bare and self._argument_starts(self.peek()):
                given = self._bare()
            self._block_parameter()
        finally:
            self.each = outer
        for one in given:
            if isinstance(one, Ref) and one.path in self.language.calls:
                self.language.calls[one.path](self, [self.element(owner)], one)
        found = self.language.calls.get(f"*.{member}")
        if found is not None:
            return found(self, given, owner)
        if isinstance(owner, dict) and not given:
            return owner.get(member, ANYTHING)
        return Value(HOLE, text(owner).taint | Taint.UNKNOWN)

    def _block_parameter(self) -> None:
        """ruby: ``{ |f| ... }``, ``do |f|``."""
        if (
            self.language.lexicon.name == "ruby"
            and self.peek().raw in ("{", "do")
            and self.peek(1).raw == "|"
            and self.peek(2).kind == "id"
        ):
            self.names[self.peek(2).raw] = self.each
            self.at += 4

    def _index(self, thing: Thing, index: list[Thing]) -> Thing:
        at = index[0] if index else None
        if isinstance(thing, Ref):
            if "[]" in self.language.calls and isinstance(at, Value) and at.known:
                return self.language.calls["[]"](self, [at], thing)
            if isinstance(at, Value) and at.known and re.fullmatch(r"\w+", at.text):
                return Ref(f"{thing.path}.{at.text}")
            return Ref(f"{thing.path}.{HOLE}") if thing.path in self.language.modules else ANYTHING
        if isinstance(thing, list) and isinstance(at, int) and -len(thing) <= at < len(thing):
            return thing[at]
        if isinstance(thing, dict) and isinstance(at, Value):
            return thing.get(at.text, ANYTHING)
        return Value(HOLE, text(thing).taint | Taint.UNKNOWN)

    def _starts_bare(self, token: Token, thing: Ref) -> bool:
        if not self.language.bare or thing.path[:1] in "$@%":
            return False
        if token.kind in ("str", "words", "cmd"):
            return True
        return (
            thing.path in self.language.calls or f"*.{thing.path.rpartition('.')[2]}" in self.language.calls
        ) and self._argument_starts(token)

    def _argument_starts(self, token: Token) -> bool:
        if token.kind == "id":
            return token.raw not in _STOPS
        return token.kind in ("str", "words", "cmd", "num") or (
            token.kind == "op" and token.raw in ("[", "\\", "@", "-", "*", "<")
        )

    def _bare(self) -> list[Thing]:
        found = [self.expression()]
        while self.op(","):
            self.at += 1
            self.skip_lines()
            found.append(self.expression())
        return found

    def call(self, function: Thing, args: list[Thing]) -> Thing:
        if not isinstance(function, Ref):
            return ANYTHING
        path = function.path
        calls = self.language.calls
        found = calls.get(path)
        if found is None:
            head, _, last = path.rpartition(".")
            found = calls.get(f"*.{last}") if head else None
            if HOLE in path:
                self.tell.code(self.language.lexicon.name, Value(f"{path}(...)", Taint.UNKNOWN))
        if found is not None:
            flat = [
                one for arg in args for one in (arg if isinstance(arg, list) and self.language.lexicon.name == "perl" else [arg])
            ]
            return found(self, flat, function)
        taint = Taint.UNKNOWN
        for arg in args:
            taint |= text(arg).taint
        return Value(HOLE, taint)

    # -- texts ---------------------------------------------------------------------------------------------------

    def string(self, token: Token) -> Value:
        pattern = self.language.interpolation
        if not token.interpolates or pattern is None:
            raw = (
                token.raw.replace("\\'", "'").replace("\\\\", "\\")
                if self.language.lexicon.name in ("perl", "ruby", "php")
                else None
            )
            shown, hidden = unescaped(token.raw) if raw is None else (raw, False)
            return value(shown, hidden)
        parts: list[Value] = []
        at = 0
        for match in pattern.finditer(token.raw):
            parts.append(value(*unescaped(token.raw[at : match.start()])))
            parts.append(self._interpolated(next((group for group in match.groups() if group is not None), "")))
            at = match.end()
        parts.append(value(*unescaped(token.raw[at:])))
        return join(parts) if len(parts) > 1 else parts[0]

    def _interpolated(self, source: str) -> Value:
        if source in self.names:
            return text(self.names[source])
        found = tokens(source, self.language.lexicon)
        if found is None or len(found) > 200:
            return ANYTHING
        inner = ScriptReader(self.tell, self.language, found, self.names, self.depth + 1)
        inner.steps = self.steps - 50
        inner.args = self.args
        if inner.steps < 0 or inner.depth > MAX_DEPTH:
            raise TooMuch("depth")
        thing = inner.expression()
        self.steps = inner.steps
        self.shells = self.shells or inner.shells
        return text(thing)

    def evaluate(self, source: Value, language: str) -> None:
        """``eval`` of a text."""
        self.tell.code(language, source)

    def start(self, command: Value) -> None:
        """Note whether the started command is a shell."""
        words = command.text.split(None, 1)
        if words and words[0].rpartition("/")[2] in _SHELLS:
            self.shells = True

    def tell_shell(self, command: Value) -> Value:
        self.tell.shell(command)
        words = command.text.split(None, 1)
        name = words[0].rpartition("/")[2] if words else ""
        taint = Taint.REMOTE if name in ("curl", "wget") else Taint.DECODED if name in ("base64", "xxd") else Taint.NONE
        return Value(HOLE, taint | Taint.UNKNOWN)
