"""Effects that several script languages have calls for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tools.judge.languages import _decode
from tools.judge.languages._script_language import Call, Opened, SourceReader, Thing, formatted, text
from tools.judge.languages._tell import join
from tools.judge.meaning.interpreters import SHELLS
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value


def at(args: Sequence[Thing], index: int) -> Value:
    return text(args[index]) if index < len(args) else ANYTHING


def words_of(args: Sequence[Thing]) -> list[Value]:
    """A program's words: arguments that may be lists themselves."""
    found: list[Value] = []
    for arg in args:
        found += [text(one) for one in arg] if isinstance(arg, list) else [text(arg)]
    return found


def remove(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    for path in words_of(args) or [ANYTHING]:
        r.tell.remove(path)
    return ANYTHING


def remove_tree(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    for path in words_of([arg for arg in args if not isinstance(arg, dict | int)]) or [ANYTHING]:
        r.tell.remove(path, recursive=True)
    return ANYTHING


def remove_folder(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.remove_folder(at(args, 0))
    return ANYTHING


def move(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.move(at(args, 0), at(args, 1))
    return ANYTHING


def copy(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.copy(at(args, 0), at(args, 1))
    return ANYTHING


def copy_tree(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.copy(at(args, 0), at(args, 1), recursive=True)
    return ANYTHING


def symlink(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.link(at(args, 0), at(args, 1), symbolic=True)
    return ANYTHING


def hardlink(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.link(at(args, 0), at(args, 1), symbolic=False)
    return ANYTHING


def _mode(thing: Thing) -> int | Value:
    return thing if isinstance(thing, int) else text(thing)


def chmod_first(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``chmod MODE, FILES``"""
    for path in words_of(args[1:]) or [ANYTHING]:
        r.tell.chmod(_mode(args[0] if args else ANYTHING), path)
    return ANYTHING


def chmod_last(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``chmod(FILE, MODE)``"""
    mode = args[1] if len(args) > 1 else ANYTHING
    known = isinstance(mode, Value) and mode.text.isdigit()
    r.tell.chmod(mode if known else _mode(mode), at(args, 0))
    return ANYTHING


def chown_last(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.chown(at(args, 1), at(args, 0))
    return ANYTHING


def truncate(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.truncate(at(args, 0), at(args, 1) if len(args) > 1 else Value("0"))
    return ANYTHING


def write(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.write(at(args, 0), at(args, 1) if len(args) > 1 else None)
    return ANYTHING


def append(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.write(at(args, 0), at(args, 1) if len(args) > 1 else None, append=True)
    return ANYTHING


def read_file(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    path = at(args, 0)
    if path.text.startswith(("http://", "https://", "ftp://")):
        return r.tell.fetch(path)
    return r.tell.read(path)


def shell(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    command = at(args, 0)
    r.start(command)
    return Opened("process", r.tell_shell(command))


def program(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """A program and its arguments; one text alone is for a shell, as in perl's and ruby's system."""
    given = [arg for arg in args if not isinstance(arg, dict)]
    if len(given) == 1 and not isinstance(given[0], list):
        return shell(r, given, owner)
    words = words_of(given)
    if words:
        r.start(words[0])
        r.tell.run(words)
    return Opened("process", ANYTHING)


def program_only(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """A program and its arguments, never by a shell."""
    given = [arg for arg in args if not isinstance(arg, dict)]
    words = words_of(given) or [ANYTHING]
    r.start(words[0])
    r.tell.run(words)
    return Opened("process", ANYTHING)


def reads_commands(words: Sequence[Value]) -> bool:
    """Return whether the words start a shell that reads its commands from its input."""
    return (
        bool(words)
        and words[0].text.rpartition("/")[2] in SHELLS
        and all(one.text in ("-", "-s", "-i", "-l") for one in words[1:])
    )


def piped(r: SourceReader, words: Sequence[Value], given: Value = ANYTHING) -> Thing:
    """A program into which the code writes."""
    r.start(words[0])
    r.tell.run(words, given)
    return Opened("process", ANYTHING)


def kill_signal_first(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    signal = args[0] if args else None
    name: int | str | None = signal if isinstance(signal, int) else text(signal).text if isinstance(signal, Value) else None
    for pid in words_of(args[1:]) or [ANYTHING]:
        r.tell.kill(name, pid)
    return ANYTHING


def kill_pid_first(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    signal = args[1] if len(args) > 1 else 15
    name: int | str | None = signal if isinstance(signal, int) else text(signal).text if isinstance(signal, Value) else None
    r.tell.kill(name, at(args, 0))
    return ANYTHING


def chdir(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.cwd = r.tell.place(at(args, 0))
    return ANYTHING


def connect(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``TCPSocket.new(host, port)``, ``net.connect(port, host)``, ``fsockopen(host, port)``, a hash of both."""
    host, port = ANYTHING, ANYTHING
    options = next((arg for arg in args if isinstance(arg, dict)), None)
    if options is not None:
        host, port = text(options.get("host", ANYTHING)), text(options.get("port", ANYTHING))
    for arg in args[:2]:
        if isinstance(arg, int) or (isinstance(arg, Value) and arg.text.isdigit()):
            port = text(arg)
        elif isinstance(arg, Value):
            host = arg
    r.connected = (host, port)
    return Opened("socket", Value(HOLE, Taint.REMOTE | Taint.UNKNOWN))


def by_path(call: Call) -> Call:
    """Return ``call`` for a function that may get a socket's path: ``UNIXSocket.new(path)``, ``net.connect({path})``."""

    def connected(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
        for arg in args[:2]:
            r.tell.connect(text(arg.get("path", "") if isinstance(arg, dict) else arg))
        return call(r, args, owner)

    return connected


def fetch(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return Opened("response", r.tell.fetch(at(args, 0)))


def post(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.send(at(args, 1), at(args, 0))
    return Opened("response", Value(HOLE, Taint.REMOTE | Taint.UNKNOWN))


def host_of(url: Value) -> Value:
    return url._replace(text=url.text.rpartition("://")[2].partition("/")[0])


def send(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """Report a write to a connection or an open file."""
    if isinstance(owner, Opened) and owner.kind == "socket" and r.connected is not None:
        r.tell.send_to(at(args, 0), *r.connected)
    elif isinstance(owner, Opened) and owner.number:
        r.tell.more(owner.number, at(args, 0))
    return ANYTHING


def content(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """Return the content read from a connection, a file or a process."""
    return text(owner)


def pattern(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """glob."""
    return [at(args, 0)._replace(pattern=True)]


def joined_path(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return join([one for one in words_of(args) if one.text], "/")


def joined(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``list.join(between)``"""
    between = at(args, 0).text if args else ""
    return join([text(one) for one in owner], between) if isinstance(owner, list) else text(owner)


def joined_last(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``join(between, list)``"""
    return join(words_of(args[1:]), at(args, 0).text)


def reverse(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    given = owner if isinstance(owner, list | Value) else args[0] if len(args) == 1 else args
    if isinstance(given, list):
        return [text(one) for one in reversed(given)]
    shown = text(given)
    return Value(shown.text[::-1], shown.taint | Taint.DECODED)


def first_of(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return owner[0] if isinstance(owner, list) and owner else ANYTHING


def same(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return owner if isinstance(owner, Value | Opened | list) else args[0] if args else ANYTHING


def first(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return args[0] if args else ANYTHING


def nothing(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return ANYTHING


def characters(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """chr, String.fromCharCode, string.char: of numbers."""
    given = [one for arg in args for one in (arg if isinstance(arg, list) else [arg])]
    if given and all(isinstance(one, int) and 0 <= one < 0x110000 for one in given):
        return Value("".join(map(chr, given)), Taint.DECODED)
    return Value(HOLE, Taint.UNKNOWN | Taint.DECODED)


def decoder(function: Callable[[bytes], bytes | None], of_owner: bool = False) -> Call:
    def call(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
        return decoded(text(owner) if of_owner else at(args, 0), function)

    return call


def decoded(given: Value, function: Callable[[bytes], bytes | None]) -> Value:
    found = function(given.text.encode("utf-8", "surrogatepass")) if given.known else None
    taint = given.taint | Taint.DECODED
    return Value(found.decode("utf-8", "replace"), taint) if found is not None else Value(HOLE, taint | Taint.UNKNOWN)


from_base64 = decoder(_decode.base64_text)
from_hex = decoder(lambda raw: _decode.hex_text(raw.decode("latin-1")))
from_rot13 = decoder(lambda raw: _decode.rot13(raw.decode("utf-8")).encode())
from_url = decoder(lambda raw: _decode.unquoted(raw.decode("utf-8")).encode())
from_deflate = decoder(_decode.inflated)
from_raw_deflate = decoder(lambda raw: _decode.inflated(raw, -15))


def sprintf(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return formatted(at(args, 0), args[1:])


def evaluate(language: str) -> Call:
    def call(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
        if args and not isinstance(args[0], dict):
            r.evaluate(at(args, 0), language)
        return ANYTHING

    return call


def run_file(language_program: str) -> Call:
    """``require``, ``load``, ``include`` of a file by a path."""

    def call(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
        path = at(args, 0)
        if "/" in path.text or not path.known or path.taint:
            r.tell.run([Value(language_program), path])
        return ANYTHING

    return call


def variable(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """An environment variable by its name."""
    name = at(args, 0).text
    if name == "HOME":
        return Value("~")
    secret = any(part in name.upper() for part in ("KEY", "TOKEN", "SECRET", "PASS", "CRED", HOLE))
    return Value(HOLE, Taint.UNKNOWN | (Taint.SECRET if secret else Taint.NONE))


def query(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    for arg in args:
        shown = text(arg)
        if any(
            word in shown.text.upper() for word in ("DROP ", "DELETE ", "UPDATE ", "TRUNCATE ", "GRANT ", "ALTER ", "REVOKE ")
        ):
            r.tell.code("sql", shown)
    return ANYTHING
