"""JavaScript, perl, ruby, PHP and Lua: one scan over the tokens for calls of functions in a table.

Every branch, loop and function counts as run once. An argument is known if it is built from texts and names assigned to texts. A
word that may hide anything, or a function that is used without a call, makes the program opaque; so does every word of Tcl that
does more than compute.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages._rows import report
from tools.judge.languages._script_tables import SCRIPTS, ScriptLanguage
from tools.judge.languages._script_tokens import Token, tokens, unescaped
from tools.judge.languages._tell import Tell, TooMuch, is_secret, join
from tools.judge.languages._things import computed, is_hidden, path_join, unknown
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.interpreters import SHELLS
from tools.judge.meaning.value import ANYTHING, Taint, Value

_TCL = Regex(
    r"\b(?:exec|spawn|open|send|exp_send|eval|subst|uplevel|source|socket|load|interp|after|trace|system|overlay)\b|\bfile\s+[dcr]"
)
_TCL_STARTS = Regex(r"\b(?:spawn|exec)[ \t]+([^;\n\[\]{}$\"]+)")
_TCL_SENDS = Regex(r"\bsend\s+(?:--\s+)?\"([^\"]*)\"")
_PHP = Regex(r"(?s)\?>.*?(?:<\?(?:php|=)?|\Z)|<\?(?:php|=)?")
_FIELD = Regex(r"(?<!\\)(?:[$#]\{[^{}]*\}|\{\$\w+\}|[$@]\w+(?:(?:->)?[\[{]\w+[\]}])?)")
_IMPORT = Regex(
    r"(?:const|let|var|import)\s+(?:(\w+)|\*\s+as\s+(\w+)|\{([^{}]*)\})\s*(?:=\s*(?:await\s+)?(?:require|import)\(|from\b)\s*"
    r"['\"]([^'\"\n]+)['\"]\)?(?!\s*[.)])"
)
_HOME = Regex(r"\bHOME\b|\b(?:homedir|Dir\.home)\b")
_SECRET_NAME = Regex(r"(?i)KEY|TOKEN|SECRET|PASS|CRED|AUTH")
_MODULES = {"fs/promises": "fs", "fs-extra": "fs", "graceful-fs": "fs", "shelljs": "child_process"}
_VARIANT = Regex(r"Sync$|\.promises(?=\.)|\.sync$|^(?:CORE|POSIX|File::Path|File::Copy|Kernel|module|globalThis|global)(?:::|\.)")
"""Parts of function names that do not change the effect."""
_OCTAL = Regex(r"^0o?(?=[0-7])")
_CLOSERS = {"(": ")", "[": "]", "{": "}"}
_ENDS = frozenset(", ; \n or and if unless for foreach while do =>".split(" "))
Tokens = Sequence[Token]
MAX_TOKENS = 100
"""Maximum number of tokens of an expression that are followed."""


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    source = code.text.text
    if code.language == "tcl":
        for match in _TCL_STARTS.finditer(source):
            Tell(sink).run([Value(word) for word in match[1].split()])
        for match in _TCL_SENDS.finditer(source):
            Tell(sink).run([Value("sh")], Value(match[1].replace("\\r", "\n")))
        return _TCL.search(source) is None
    language = SCRIPTS[code.language]
    imports = [*_IMPORT.finditer(source)] if code.language == "javascript" else []
    for match in imports:
        source = source.replace(match[0], ";")
    found = tokens(_PHP.sub(";", source) if code.language == "php" else source, language.lexicon)
    if found is None:
        return False
    reader = ScriptReader(Tell(sink), language, found, args)
    for match in imports:
        module = reader.module(Value(match[4]))
        names = [re.split(r"\s*:\s*|\s+as\s+", one.strip()) for one in (match[3] or "").split(",")]
        reader.modules |= {one[-1]: f"{module}.{one[0]}" for one in names} if match[3] else {match[1] or match[2]: module}
    if code.language == "perl" and "<" in source:  # ``<>`` opens each argument, and may run it
        reader.opaque = any(one.text.strip()[-1:] == "|" or one.text.strip()[:1] in ("|", ">") for one in args)
    try:
        reader.scan()
    except (TooMuch, RecursionError):
        reader.opaque = True
    return not reader.opaque


def _raw(found: Tokens, at: int) -> str:
    return found[at].raw if 0 <= at < len(found) and found[at].kind in ("op", "id") else ""


def _end(found: Tokens, at: int, ends: frozenset[str] = _ENDS) -> int:
    """Return the end of the expression that begins at ``at``, as far as expressions are followed."""
    depth, last = 0, min(len(found), at + MAX_TOKENS)
    while at < last:
        raw = _raw(found, at)
        depth += (raw in _CLOSERS) - (raw in _CLOSERS.values())
        if depth < 0 or (depth == 0 and raw in ends):
            break
        at += 1
    return at


def _split(found: Tokens, at: int, between: str) -> list[Tokens]:
    """Return the expressions that begin at ``at``, with ``between`` between them."""
    parts: list[Tokens] = []
    while at < len(found):
        stop = _end(found, at, _ENDS | {between})
        parts += [found[at:stop]] if stop > at else []
        if _raw(found, stop) != between:
            break
        at = stop + 1
    return parts


class ScriptReader:
    """Scans a program once. ``opaque``: the program may have effects that were not found."""

    def __init__(self, tell: Tell, language: ScriptLanguage, found: list[Token], args: Sequence[Value]) -> None:
        self.tell, self.language, self.args, self.opaque = tell, language, list(args), False
        self.tokens = [one for one in found if one.raw != "\n" or language.lexicon.name == "ruby"]
        self.values: dict[str, Value] = {}
        self.modules: dict[str, str] = {}

    def scan(self) -> None:
        at = 0
        while at < len(self.tokens):
            token = self.tokens[at]
            if token.kind == "cmd":
                self.tell.shell(self.text(token))
            self.opaque |= token.kind == "re" and "?{" in token.raw
            at = self.name(at) if token.kind == "id" else at + 1

    def name(self, start: int) -> int:
        """Read the name that begins at ``start``, with its members; return the index after it."""
        at, found, members, language = start, self.tokens, self.language.members, self.language.lexicon.name
        path = self.modules.get(found[at].raw, found[at].raw)
        if path in ("require", "import") and _raw(found, at + 1) == "(" and _raw(found, at + 3) == ")":
            path, at = self.module(self.value(found[at + 2 : at + 3])), at + 3
        while _raw(found, at + 1) in members and at + 2 < len(found) and found[at + 2].kind == "id":
            path, at = f"{path}.{found[at + 2].raw}", at + 2
        path = _VARIANT.sub("", path)
        before, after = _raw(found, start - 1), _raw(found, at + 1)
        assigned = after in ("=", ".=", "+=") and start == at
        words = re.split(r"\.|::", path)
        self.opaque |= before in members and found[start].raw in self.language.risky
        if (
            (after == "{" and path in ("do", "eval"))
            or after == "=>"
            or (after == ":" and before != "?")
            or before in ("sub", "def", "function", *members)
        ):
            return at + 1
        if path in self.language.rows:
            self.call(self.language.rows[path], path, at + 1)
        elif {*words, path, path.partition(".")[0]} & self.language.risky or any(
            ".".join(words[:n]) in self.language.rows for n in range(1, len(words))
        ):
            self.opaque = True  # a risky name, or a member of a function: ``fs.rmSync.bind``
        elif (
            "\\" in path
            or (path[:1] == "$" and after == "(" and language == "php")
            or (path in self.modules.values() and after == "[")
            or (language == "lua" and path in ("os", "io"))  # ``os["exec" .. "ute"]``, ``o = os``
            or (assigned and path in ("@ARGV", "$^I"))
        ):
            self.opaque = True
        elif assigned:
            value = self.value(found[at + 2 : _end(found, at + 2)])
            self.values[path] = join([self.values.get(path, ANYTHING), value]) if after != "=" else value
        elif (
            path in ("child_process", "fs") and after != "." and path not in {one.split(".")[0] for one in self.modules.values()}
        ):
            self.opaque = True
        elif path.startswith("process.env"):
            shown = "".join(one.raw for one in found[start : at + 4])
            self.tell.reads_secret |= _SECRET_NAME.search(shown) is not None or (path == "process.env" and after != "[")
        return at + 1

    def module(self, name: Value) -> str:
        plain = name.text.removeprefix("node:")
        if plain[:1] not in ("/", "."):
            self.opaque |= not name.known or ":" in plain
        elif not plain.endswith(".json"):
            self.tell.run([Value("node"), name])
        return _MODULES.get(plain, plain)

    def arguments(self, at: int) -> list[Tokens] | None:
        """Return the arguments of a call, which begin at ``at``; None if there is no call."""
        raw = _raw(self.tokens, at)
        if raw == "(":
            return _split(self.tokens, at + 1, ",")
        starts = at < len(self.tokens) and self.tokens[at].kind != "op" and raw not in _ENDS
        return _split(self.tokens, at, ",") if self.language.bare and (starts or raw in ("[", "\\")) else None

    def call(self, row: str, path: str, at: int) -> None:
        given = self.arguments(at)
        command, *rest = row.split()
        if given is None and not (self.language.bare and command in ("rm", "mv", "cp")):
            self.opaque = True
            return
        shown = {one.raw for part in given or [] for one in part}
        values = [one for part in given or [] for one in self.each(part)] or self.args or [unknown(Taint.MANY)]
        secret = self.tell.reads_secret or any(map(is_secret, shown))
        fed = values[0].text.rpartition("/")[2] in SHELLS and [one.text for one in values[1:2]] != ["-c"]
        self.opaque |= (
            (fed and command in ("run", "system", "sh")) or "shell" in shown or (command == "connect" and not values[0].known)
        )
        self.opaque |= any(map(is_hidden, values[: 1 if command in (">", ">>") else 2]))
        if command == "system":
            report(self.tell, "sh 0" if len(values) == 1 else "run 0+", values, "")
        elif command == "load":
            self.module(values[0])
        elif command == "open":
            self.opened(rest[0], values)
        elif command in ("curl", "getent", "connect") and (secret or "body" in shown or path.endswith((".post", ".request"))):
            self.tell.send(unknown(Taint.SECRET if secret else Taint.NONE), values[-1])
        else:
            if "fs." in path and row in ("rm -r 0", "rmdir 0"):
                row = "rm -r 0" if "recursive" in shown else "rm 0" if row == "rm -r 0" else row
            report(self.tell, row, values, self.language.lexicon.name)

    def opened(self, how: str, values: list[Value]) -> None:
        """Report ``open(path, mode)``. In perl a handle comes first, and the mode comes before the path or is part of it."""
        path, mode = [*values, Value("r"), ANYTHING][:2]
        if how == "1":
            mode, path = [*values[1:], ANYTHING, ANYTHING][:2]
            match = re.match(r"\s*(\+?[<>|]*)&?\s*(.*?)(\|?)\s*$", mode.text, re.DOTALL) if len(values) == 2 else None
            mode, path = (Value(match[1] + match[3]), mode._replace(text=match[2])) if match else (mode, path)
        if "|" in mode.text:
            self.opaque |= path.text in SHELLS
            self.tell.shell(path)
            return
        self.opaque |= not mode.known
        writes = ">>" if mode.text[:1] == "a" or ">>" in mode.text else ">" if re.search(r"[wx+>]", mode.text) else "<"
        report(self.tell, f"{writes} 0", [path], "")

    # -- values ---------------------------------------------------------------------------------------------------

    def each(self, part: Tokens) -> list[Value]:
        """Return the values of an argument, which may be a list; none for options and functions."""
        first = part[0]
        if first.kind == "words":
            return [Value(word) for word in first.raw.split()]
        if first == Token("op", "[") and part[-1] == Token("op", "]"):
            return [one for piece in _split(part, 1, ",") for one in self.each(piece)]
        return [] if first.raw in ("{", "function", "async") or any(one.raw == "=>" for one in part) else [self.value(part)]

    def value(self, part: Tokens) -> Value:
        return join([self.piece(piece) for piece in _split(part, 0, self.language.joins)] or [ANYTHING])

    def piece(self, part: Tokens) -> Value:
        texts = [self.text(one) for one in part if one.kind == "str"]
        if len(part) == 1:
            return (
                texts[0]
                if texts
                else Value(_OCTAL.sub("", part[0].raw))
                if part[0].kind == "num"
                else self.values.get(part[0].raw, ANYTHING)
            )
        shown = "".join(one.raw for one in part if one.kind in ("op", "id", "str"))
        if _HOME.search(shown) and len(texts) < 2:
            return Value("~")
        if shown.startswith(("path.join(", "path.resolve(", "File.join(")):
            return path_join(*(self.value(one) for one in _split(part, 4, ",")))
        if texts and part[0].raw in ("glob", "Dir"):
            return texts[0]._replace(pattern=True)
        return computed(*texts) if texts else ANYTHING

    def text(self, token: Token) -> Value:
        """Return a string's text, with the known values of names in it."""
        pieces: list[Value] = []
        at = 0
        for match in _FIELD.finditer(token.raw) if token.interpolates else ():
            inner = tokens(match[0].lstrip("#").strip("{}") if match[0][1:2] != "{" else match[0][2:-1], self.language.lexicon)
            pieces += [Value(unescaped(token.raw[at : match.start()])[0]), self.value(inner or [])]
            at = match.end()
        return join([*pieces, Value(unescaped(token.raw[at:])[0])])
