"""Reports of effects, in one module, so that equal effects of all languages have equal reports."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning.act import Code, RedirectTarget, Sink
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

MAX_TOLD = 2_000
MAX_TEXT = 200_000
FOUND = "/usr/bin/"
"""Folder assumed for a program that code looked up: its path has Taint.MAYBE, and starting it is reported by its name."""

_NAME = Regex(r"[\w-]+")
"""A word that may be the name of a socket in the working folder."""
_SECRET = Regex(
    r"/\.ssh/(?!known_hosts|config$|.*\.pub$)|/\.aws/cred|/\.gnupg/|/\.netrc$|/\.pgpass$|/\.kube/config|/\.docker/config\.json"
    r"|/\.git-credentials|/\.config/(?:gh|gcloud)/|/\.(?:npmrc|pypirc|my\.cnf)$|(?:^|/)\.env(?:\.|$)|^/etc/g?shadow|^/proc/[^/]+/environ"
    r"|/id_(?:rsa|dsa|ecdsa|ed25519)$|\.(?:pem|p12|pfx|keystore|kdbx|key)$|/(?:Cookies|logins\.json|key4\.db|wallet\.dat)$"
    r"|(?:^|/)(?:secrets?|credentials?|tokens?)(?:\.\w+)?$|/run/secrets/"
)


class TooMuch(Exception):
    """Raised at a limit: the effects found so far are reported, any others are unknown."""


def is_secret(path: str) -> bool:
    """Return whether a file of this name is likely to hold a key or a password."""
    return _SECRET.search(f"/{path}" if path[:1] not in "/~" else path) is not None


def join(values: Sequence[Value], between: str = "") -> Value:
    """Join several texts and their taints. A text that is too long is unknown."""
    taint = Taint.NONE
    pattern = False
    size = 0
    for value in values:
        taint |= value.taint
        pattern = pattern or value.pattern
        size += len(value.text) + len(between)
    if size > MAX_TEXT:
        return Value(HOLE, taint | Taint.UNKNOWN)
    return Value(between.join([value.text for value in values]), taint, pattern)


def quoted(value: Value) -> Value:
    """Quote a value as one word of shell text."""
    if re.fullmatch(r"[\w./:=@%+,~-]+", value.text):
        return value
    return value._replace(text="'" + value.text.replace("'", "'\\''") + "'")


class Tell:
    """A bounded reporter of effects to a sink: each effect is reported once."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.cwd: Value | None = None
        """Working folder that the code set with chdir."""
        self.environment: dict[str, Value] = {}
        """Variables that the code set for its children."""
        self.reads_secret = False
        """True once a file was read that is likely to hold a key."""
        self.included: set[str] = set()
        """Files that the code loaded."""
        self._said: set[object] = set()
        self._writes: dict[int, tuple[RedirectTarget, list[Value]]] = {}
        self._next = 0

    # -- programs ------------------------------------------------------------------------------------------------

    def run(
        self, argv: Sequence[Value], stdin: Value | None = None, cwd: Value | None = None, env: dict[str, Value] | None = None
    ) -> None:
        """Report a program that the code starts, with the folder and the environment that it gets."""
        if argv and argv[0].taint & Taint.MAYBE and argv[0].text.startswith(FOUND):
            argv = [argv[0]._replace(text=argv[0].text[len(FOUND) :]), *argv[1:]]
        where = self.place(cwd) if cwd is not None else self.cwd
        variables = {**self.environment, **(env or {})}
        if where is not None or variables:
            words = [Value("env")]
            if where is not None:
                words.append(join([Value("--chdir="), where]))
            words += [join([Value(name + "="), value]) for name, value in variables.items()]
            argv = [*words, *argv]
        self.say(argv, stdin=stdin)

    def shell(
        self, text: Value, stdin: Value | None = None, cwd: Value | None = None, env: dict[str, Value] | None = None
    ) -> None:
        if stdin is not None:
            self.run([Value("sh"), Value("-c"), text], stdin, cwd, env)
            return
        where = self.place(cwd) if cwd is not None else self.cwd
        variables = {**self.environment, **(env or {})}
        parts: list[Value] = []
        if where is not None:
            parts += [Value("cd "), quoted(where), Value(" && ")]
        for name, value in variables.items():
            parts += [Value(f"export {name}="), quoted(value), Value("; ")]
        text = join([*parts, text]) if parts else text
        self._report_written()
        if self._new(("shell", text)):
            self.sink.shell(text)

    def code(self, language: str, text: Value = ANYTHING, path: str = "") -> None:
        self._report_written()
        if self._new(("code", language, text, path)):
            self.sink.code(Code(language, text, "file" if path else "argument", path))

    def say(self, argv: Sequence[Value], redirects: Sequence[RedirectTarget] = (), stdin: Value | None = None) -> None:
        self._report_written()
        if self._new((tuple(argv), tuple(redirects), stdin)):
            self.sink.run(list(argv), list(redirects), stdin)

    def words(self, *words: str | Value) -> None:
        self.say([Value(word) if isinstance(word, str) else word for word in words])

    # -- files ---------------------------------------------------------------------------------------------------

    def place(self, path: Value) -> Value:
        """Return ``path`` as seen from the folder that the code started in."""
        if self.cwd is None or path.text[:1] in ("/", "~", HOLE):
            return path
        return join([self.cwd, Value("/"), path])

    def operand(self, path: Value) -> Value:
        path = self.place(path)
        return path._replace(text="./" + path.text) if path.text.startswith("-") else path

    def remove(self, path: Value, recursive: bool = False) -> None:
        self.words("rm", *(["-r"] if recursive else []), self.operand(path))

    def move(self, source: Value, target: Value) -> None:
        self.words("mv", self.operand(source), self.operand(target))

    def copy(self, source: Value, target: Value, recursive: bool = False) -> None:
        self.words("cp", *(["-r"] if recursive else []), self.operand(source), self.operand(target))

    def link(self, source: Value, target: Value, symbolic: bool) -> None:
        self.words("ln", *(["-s"] if symbolic else []), source, self.operand(target))

    def chmod(self, mode: int | Value, path: Value, recursive: bool = False) -> None:
        shown = Value(f"{mode & 0o7777:o}") if isinstance(mode, int) else mode
        self.words("chmod", *(["-R"] if recursive else []), shown, self.operand(path))

    def write(self, path: Value, text: Value | None = None, append: bool = False) -> None:
        self.say([], [RedirectTarget(">>" if append else ">", self.place(path))], text)

    def begin(self, path: Value, append: bool) -> int:
        """Record a file that is opened to write, and return its number for ``more``.

        A file that got text is reported before the next effect, a file without text by ``flush``.
        """
        self._next += 1
        self._writes[self._next] = (RedirectTarget(">>" if append else ">", self.place(path)), [])
        return self._next

    def more(self, number: int, text: Value) -> None:
        if number in self._writes:
            self._writes[number][1].append(text)

    def reopen(self, number: int, path: Value) -> None:
        """Record that more will be written to a file whose first part was reported already."""
        if number not in self._writes:
            self._writes[number] = (RedirectTarget(">>", self.place(path)), [])

    def _report_written(self) -> None:
        """Report the files that have got text so far, and keep the others, which may still get some."""
        if self._writes and any(texts for _, texts in self._writes.values()):
            pending, self._writes = self._writes, {number: one for number, one in self._writes.items() if not one[1]}
            for target, texts in pending.values():
                if texts:
                    self.say([], [target], join(texts))

    def flush(self) -> None:
        """Report all files that were opened to write."""
        self._report_written()
        pending, self._writes = self._writes, {}
        for target, _ in pending.values():
            self.say([], [target])

    def read(self, path: Value) -> Value:
        """Return the content of a file, a HOLE if it is unknown. Report the read, unless the path is unknown and not in /proc."""
        path = self.place(path)
        secret = Taint.SECRET if is_secret(path.text) else Taint.NONE
        self.reads_secret = self.reads_secret or bool(secret)
        if not path.known or path.pattern:
            if "/proc" in path.text or (path.pattern and path.known):
                self.say([], [RedirectTarget("<", path, 0)])  # the file may be unknown, but its content is used
            return Value(HOLE, Taint.LOCAL | Taint.UNKNOWN | path.taint | secret)
        self.say([], [RedirectTarget("<", path, 0)])
        seen = self.sink.inspect_path(path.text)
        if seen.kind == "file" and seen.text is not None:
            return Value(seen.text, seen.taint | secret)
        return Value(HOLE, Taint.LOCAL | Taint.UNKNOWN | seen.taint | secret)

    # -- processes and network -----------------------------------------------------------------------------------

    def kill(self, signal: int | str | None, pid: Value) -> None:
        shown = str(HOLE if signal is None else signal).removeprefix("SIG")
        self.words("kill", f"-{shown}", *(["--"] if pid.text.startswith("-") else []), pid)

    def fetch(self, url: Value) -> Value:
        self.words("curl", url)
        return Value(HOLE, Taint.REMOTE | Taint.UNKNOWN)

    def send(self, data: Value, url: Value) -> Value:
        self.words("curl", "--data-binary", data, url)
        return Value(HOLE, Taint.REMOTE | Taint.UNKNOWN)

    def send_to(self, data: Value, host: Value, port: Value) -> None:
        self.send(data, join([Value("tcp://"), host, *([Value(":"), port] if port.text else ())]))

    def connect(self, path: Value) -> None:
        """Report a connection to a local socket, if the address may be a path or an abstract name."""
        text = path.text
        if text.startswith(("/", ".", "\0", "unix:")) or (text[:1] == HOLE and "/" in text) or _NAME.fullmatch(text):
            self.words("@socket", self.place(path))

    def reverse_shell(self, host: Value = ANYTHING, port: Value = ANYTHING) -> None:
        self.words("@reverse-shell", host, port)

    def _new(self, what: object) -> bool:
        if what in self._said:
            return False
        if len(self._said) >= MAX_TOLD:
            raise TooMuch("too many effects")
        self._said.add(what)
        return True
