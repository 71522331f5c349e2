"""A command line unfolded into the simple commands it would run, each as one line of normalised text.

Quotes are gone, wrappers (sudo, timeout, bash -c, find -exec ...) are looked through, constants assigned in the same line
are filled in. In ``Segment.text`` words are parted by one blank; blanks inside a word are ``\\x1f`` (which ``\\s`` matches),
so that a pattern can tell an option from a quoted argument that looks like one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.approval.lexer import Simple, Word, decode_escapes, lex
from tools.approval.wrappers import (
    ASSIGNMENT,
    INTERPRETERS,
    SHELLS,
    bare_name,
    commands_in_code,
    family,
    find_commands,
    shell_text,
    wrapped,
)

MAX_DEPTH = 8
MAX_SEGMENTS = 2_000
MAX_READ_FACTOR = 3
"""All nested texts together may be this many times the command's own length, plus a little."""

_MAX_EXPANSIONS = 200
_MAX_VALUE = 2_000
"""Expansions in one word, and characters of one variable's value."""

_RESERVED = frozenset(
    {"if", "then", "elif", "else", "do", "while", "until", "!", "time", "{", "}", "coproc", "fi", "done", "esac"}
)
_IFS = re.compile(r"\$(?:\{IFS[^}]*\}|IFS\b)")
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?:\[[@*]\])?\}|(\w+))", re.ASCII)
_CONSTANT_ECHO = re.compile(r"\$\((?:echo|printf)\s+(?:-[neE]+\s+)?(['\"]?)([\w./ -]+)\1\s*\)", re.ASCII)
_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_COMPUTED = re.compile(r"^[^=]*[$*?\[`]|^\{.*,")
_HIDES = str.maketrans({" ": "\x1f", "\t": "\x1f", "\n": "\x1f", "\r": "\x1f", ">": "\u203a", "<": "\u2039", "|": "\u00a6"})
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*+\"|(?<=\s)#[^\n]*", re.DOTALL)
_INITIALISER = re.compile(
    r"\$\([\w./-]+(?: [\w./=-]+)*? ?(?:init|env|hook|shellenv|activate|completions?|ssh-agent|dircolors|-s)\b[\w ./=-]*\)$",
    re.ASCII,
)
"""What tools print for ``eval`` to set up a shell; running it is their documented use."""
_EXEC_OPTION = re.compile(r"^(?:--checkpoint-action=exec=|ProxyCommand=|--to-command=|-?!|:!)(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Segment:
    """One simple command. ``name`` is what rules are filed under; ``fed``: its operands also come from elsewhere (xargs)."""

    name: str
    argv: tuple[str, ...]
    text: str
    redirects: tuple[tuple[str, str], ...] = ()
    fed: bool = False


@dataclass(slots=True)
class Unfolded:
    """``fault`` says why something could not be read, or is empty."""

    segments: list[Segment] = field(default_factory=list)
    fault: str = ""


def unfold(command: str) -> Unfolded:
    """Never raises on any text; stops at its limits and says so in ``fault``."""
    reader = _Reader(MAX_READ_FACTOR * len(command) + 2_000)
    reader.read(_IFS.sub(" ", command), 0)
    return reader.out


def hide(word: str) -> str:
    """One word as it stands in ``Segment.text``."""
    return word if word.startswith(("<(", ">(")) and " " not in word else _hide_all(word)


def _hide_all(word: str) -> str:
    opening = word[:2] if word.startswith(("<(", ">(")) else ""
    return opening + word[len(opening) :].translate(_HIDES)


class _Reader:
    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.out = Unfolded()
        self.variables: dict[str, str] = {"HOME": "~"}
        self.files: dict[str, str] = {}
        self.downloads: set[str] = set()

    def read(self, text: str, depth: int) -> None:
        self.budget -= len(text)
        if self.full(depth):
            return
        self.special("@line", _QUOTED.sub("''", text))
        lexed = lex(text)
        self.out.fault = self.out.fault or lexed.fault
        pipeline: list[Segment] = []
        feed: str | None = None
        for simple in lexed.commands:
            if self.full(depth):
                break
            if not simple.piped:
                self.end_pipeline(pipeline)
                pipeline, feed = [], None
            words = self.expand(simple.words)
            stdin = simple.stdin if simple.stdin is not None else feed
            before = len(self.out.segments)
            self.command(words, simple, stdin, depth)
            feed = self.output_of(words, stdin)
            pipeline.append(self.out.segments[before] if len(self.out.segments) > before else Segment("", (), ""))
            self.note_written(simple, words, feed)
        self.end_pipeline(pipeline)
        for inner in lexed.inner:
            self.read(inner, depth + 1)

    def full(self, depth: int) -> bool:
        if depth > MAX_DEPTH or self.budget < 0 or len(self.out.segments) > MAX_SEGMENTS:
            self.give_up()
            return True
        return False

    def give_up(self) -> None:
        self.out.fault = self.out.fault or "a command nested or chained too deeply to be read"

    def emit(self, argv: list[str], simple: Simple | None = None, stdin: str | None = None, *, fed: bool = False) -> None:
        redirects = tuple((op, self.fill(target)) for op, target in simple.redirects) if simple is not None else ()
        parts = [hide(word) for word in argv]
        parts += [f"{op.lstrip('0123456789')} {hide(target)}" for op, target in redirects]
        if stdin is not None and family(argv[0] if argv else "") not in ("cat", "tee", "echo", "printf"):
            parts.append("<<< " + hide(stdin))
        name = family(argv[0]) if argv else ""
        self.out.segments.append(Segment(name, tuple(argv), " ".join(parts), redirects, fed))

    def special(self, name: str, text: str) -> None:
        """A thing that is no command but that rules want to see: ``|``, ``@downloaded``, ``@computed``."""
        self.out.segments.append(Segment(name, (), f"{name} {text}" if name.startswith("@") else text))

    def end_pipeline(self, pipeline: list[Segment]) -> None:
        if len(pipeline) > 1:
            self.special("|", " | ".join(segment.text for segment in pipeline))

    # words

    def fill(self, text: str) -> str:
        if "$" not in text:
            return text
        if self.budget < 0 or text.count("$") > _MAX_EXPANSIONS:
            self.give_up()
            return text
        text = _CONSTANT_ECHO.sub(lambda match: match[2], text)
        filled = _VARIABLE.sub(lambda match: self.variables.get(match[1] or match[2], match[0])[:_MAX_VALUE], text)
        self.budget -= max(0, len(filled) - len(text))
        return filled

    def expand(self, words: list[Word]) -> list[str]:
        out: list[str] = []
        for index, word in enumerate(words):
            text = self.fill(word.text)
            if word.quoted or ASSIGNMENT.match(text):
                out.append(text)
            elif text != word.text and not text.startswith("$("):
                out += text.split()
            elif index == 0 and (braces := _BRACES.fullmatch(text)):
                out += [part for part in braces[1].split(",") if part]
            else:
                out.append(text)
        return out

    # commands

    def command(self, words: list[str], simple: Simple, stdin: str | None, depth: int) -> None:
        while words and words[0] in _RESERVED:
            words = words[1:]
        if words and words[0] in ("for", "select", "case", "function"):
            if len(words) > 3 and words[2] == "in":
                self.variables[words[1]] = " ".join(words[3:])
            return
        assigned = 0
        while assigned < len(words) and (match := ASSIGNMENT.match(words[assigned])):
            value = words[assigned][match.end() :]
            self.variables[match[1]] = value[1:-1] if value.startswith("(") and value.endswith(")") else value
            assigned += 1
        if assigned:
            self.emit(["export", *words[:assigned]])
        if words[assigned:] or simple.redirects:
            self.run(words[assigned:], simple, stdin, depth, fed=False)

    def run(self, argv: list[str], simple: Simple | None, stdin: str | None, depth: int, *, fed: bool) -> None:
        if argv:
            argv = [bare_name(argv[0]), *argv[1:]]
            if _COMPUTED.search(argv[0]) and argv[0] not in ("[", "[[") and not _INITIALISER.match(" ".join(argv)):
                self.special("@computed", hide(argv[0]))
        self.emit(argv, simple, stdin, fed=fed)
        if not argv or self.full(depth):
            return
        inside = wrapped(argv)
        if inside is not None and inside[1]:
            self.read(" ".join(inside[0]), depth + 1)
        elif inside is not None:
            self.run(inside[0], None, stdin, depth + 1, fed=fed or argv[0] == "xargs")
        for found in find_commands(argv) if argv[0] == "find" else ():
            self.run(found, None, None, depth + 1, fed=True)
        self.texts(argv, stdin, depth)

    def texts(self, argv: list[str], stdin: str | None, depth: int) -> None:
        """Arguments and input that are commands or code again."""
        name = argv[0]
        text = shell_text(argv)
        if text is not None:
            self.read(text, depth + 1)
        elif name in SHELLS and "-n" not in argv:
            self.shell_input(argv, stdin, depth)
        elif name in (".", "source") or (argv[:1] and "/" in name):
            self.script(argv[1] if name in (".", "source") and len(argv) > 1 else name, depth)
        elif family(name) in INTERPRETERS:
            for code in [*argv[1:], stdin or ""]:
                for found in commands_in_code(code):
                    self.read(found, depth + 1)
            self.script(next((word for word in argv[1:] if not word.startswith("-")), ""), depth)
        else:
            self.quoted_commands(argv, stdin, depth)

    def quoted_commands(self, argv: list[str], stdin: str | None, depth: int) -> None:
        """Arguments that some commands keep, or hand to a shell."""
        name = argv[0]
        if name == "trap" and len(argv) > 2:
            self.read(argv[1], depth + 1)
        elif name == "alias":
            for word in argv[1:]:
                self.read(word.partition("=")[2], depth + 1)
        elif name == "read" and stdin is not None and len(argv) > 1:
            self.variables[argv[-1]] = stdin
        elif name in ("tar", "vim", "vi", "nvim", "ed", "less", "ssh", "rsync"):
            for word in argv[1:]:
                if match := _EXEC_OPTION.match(word):
                    self.read(match[1], depth + 1)

    def shell_input(self, argv: list[str], stdin: str | None, depth: int) -> None:
        operand = next((word for word in argv[1:] if not word.startswith(("-", "+"))), "")
        if match := re.match(r"<\(\s*(?:echo|printf)\s+(.*)\)$", operand, re.DOTALL):
            self.read(match[1].strip("'\""), depth + 1)
        elif operand and "-s" not in argv:
            self.script(operand, depth)
        elif stdin is not None:
            self.read(self.fill(stdin), depth + 1)

    def script(self, path: str, depth: int) -> None:
        """A file that an earlier command of the same line wrote or downloaded."""
        path = path.removeprefix("./")
        if path in self.downloads:
            self.special("@downloaded", hide(path))
        elif path in self.files:
            self.read(self.files.pop(path), depth + 1)

    def output_of(self, words: list[str], stdin: str | None) -> str | None:
        """What a command that only repeats constants writes."""
        if not words:
            return None
        if words[0] == "echo":
            escapes = any(re.fullmatch(r"-[nE]*e[neE]*", word) for word in words[1:])
            text = " ".join(word for word in words[1:] if not re.fullmatch(r"-[neE]+", word))
            return decode_escapes(text) if escapes else text
        if words[0] == "printf" and len(words) > 1:
            return decode_escapes(" ".join(words[1:]).replace("%s", " ").replace("%b", " "))
        if words[0] in ("cat", "tee"):
            return stdin
        return None

    def note_written(self, simple: Simple, words: list[str], text: str | None) -> None:
        targets = [target.removeprefix("./") for op, target in simple.redirects if ">" in op]
        if words[:1] == ["tee"]:
            targets += [word.removeprefix("./") for word in words[1:] if not word.startswith("-")]
        if words and bare_name(words[0]) in ("curl", "wget"):
            for index, word in enumerate(words):
                if word in ("-o", "-O", "--output", "--output-document") and index + 1 < len(words):
                    targets.append(words[index + 1].removeprefix("./"))
                if "://" in word:
                    targets.append(word.rsplit("/", 1)[-1])
                    targets.append(word.rsplit("/", 2)[-1])
            self.downloads.update(filter(None, targets))
            self.downloads.update(target.rsplit("/", 1)[-1] for target in targets if target)
        elif text is not None:
            for target in targets:
                self.files[target] = text
