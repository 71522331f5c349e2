"""perl."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages import _script_calls as c
from tools.judge.languages._script import read_script
from tools.judge.languages._script_language import Call, Language, Opened, Ref, SourceReader, Thing, text
from tools.judge.languages._script_tokens import Lexicon
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

_ANGLES = Regex(r"((?:\b(?:unlink|rmtree|remove_tree|for|foreach)|[=(,])\s*\(?\s*)<(?=[^<>\n]*[*?/])([^<>\s$\"'][^<>\n\"']*)>")
"""``<a/*>`` where a list may stand: that is ``glob("a/*")``."""


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    if "<" in code.text.text:
        code = code._replace(text=code.text._replace(text=_ANGLES.sub(r'\1glob("\2")', code.text.text)))
    return read_script(code, args, sink, LANGUAGE)


def _open(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``open(F, "> file")``, ``open(F, ">", file)``, ``open(P, "cmd |")``, ``open(P, "|-", "cmd")``"""
    mode = c.at(args, 1)
    path: Value | None = c.at(args, 2) if len(args) > 2 else None
    if path is None:
        match = re.match(r"\s*(\+?[<>|]{0,2}&?)\s*(.*?)\s*(\|?)\s*$", mode.text, re.DOTALL)
        kind, rest, pipe = match.groups() if match is not None else ("", mode.text, "")
        path = mode._replace(text=rest)
        kind = "|" if pipe else kind
    else:
        kind = mode.text.strip().split(":")[0].strip()
    if "&" in kind:
        return ANYTHING
    if "|" in kind:
        if len(args) > 3:
            r.tell.run(c.words_of(args[2:]))
        elif kind.startswith("|") and c.reads_commands(words := [Value(word, path.taint) for word in path.text.split()]):
            c.piped(r, words)
        else:
            c.shell(r, [path], owner)
        return ANYTHING
    if ">" in kind:
        r.tell.write(path, append=">>" in kind)
        return ANYTHING
    return r.tell.read(path)


def _magic(r: SourceReader, path: Value, owner: Thing) -> bool:
    """Open a pipe or a file to write to, as ``<>`` does where a path says so; return whether it does."""
    shown = path.text.strip()
    found = shown[-1:] == "|" or shown[:1] in ("|", ">")
    if found:
        _open(r, [ANYTHING, path], owner)
    return found


def _diamond(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``<>``: reads the files in @ARGV, one after the other; with ``$^I`` it writes them too."""
    given = r.names.get("@ARGV")
    own = c.words_of([] if given is None else [given])
    found = [r.tell.read(path) if path in own else ANYTHING for path in own or r.args if not _magic(r, path, owner)]
    for path in own if "$^I" in r.names else ():
        r.tell.write(path)
    return found[0] if len(found) == 1 else ANYTHING


def _sysopen(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``sysopen(F, "file", O_WRONLY)``: the flags are names or a number."""
    flags = args[2] if len(args) > 2 else 0
    if flags == 0 or (isinstance(flags, Ref) and flags.path == "O_RDONLY"):
        return r.tell.read(c.at(args, 1))
    r.tell.write(c.at(args, 1), append=True)
    return ANYTHING


def _opened_by_new(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``IO::File->new("file", "a")``"""
    if len(args) < 2:
        return _open(r, [ANYTHING, *args], owner)
    mode = {"w": ">", "a": ">>"}.get(c.at(args, 1).text.strip()[:1].lower(), c.at(args, 1).text)
    return _open(r, [ANYTHING, Value(">>" if isinstance(args[1], Ref | int) else mode), args[0]], owner)


def _tied(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``tie @lines, "Tie::File", "file"``"""
    if c.at(args, 1).text in ("Tie::File", "DB_File", "SDBM_File", "GDBM_File", "NDBM_File"):
        r.tell.write(c.at(args, 2), append=True)
    return ANYTHING


def _after(count: int) -> Call:
    """A program behind so many handles: ``open3($in, $out, $err, "program", "argument")``."""
    return lambda r, args, owner: c.program(r, args[count:], owner) if args[count:] else ANYTHING


def _of_arguments(call: Call) -> Call:
    """Follow a command of ExtUtils::Command: what the code is given are its arguments."""
    return lambda r, args, owner: call(r, list(r.args), owner) if not args and r.args else ANYTHING


def _unlink(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """Remove the arguments. Without any, it removes what a loop or ``find`` iterates over."""
    return c.remove(r, args or [Value(HOLE, Taint.UNKNOWN | Taint.MANY)], owner)


def _system(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return c.program(r, args, owner)


def _inet(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    shown = [text(arg).text for arg in args]
    host = port = ANYTHING
    for value in args:
        if isinstance(value, Value) and ":" in value.text and value.text.rpartition(":")[2].isdigit():
            host, port = Value(value.text.rpartition(":")[0]), Value(value.text.rpartition(":")[2])
    r.connected = (host, port) if shown else (ANYTHING, ANYTHING)
    return Opened("socket", Value(HOLE, Taint.REMOTE | Taint.UNKNOWN))


def _connect(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.connected = (ANYTHING, ANYTHING)
    return ANYTHING


def _posted(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """A client's ``post``: what is sent by it is not followed, that it sends is."""
    r.connected = (c.host_of(c.at(args, 0)), Value(""))
    return Opened("response", Value(HOLE, Taint.REMOTE | Taint.UNKNOWN))


def _pack(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    template = c.at(args, 0).text
    if template.startswith("H"):
        return c.from_hex(r, args[1:], owner)
    if template.startswith(("C", "U", "W")):
        return c.characters(r, args[1:], owner)
    return Value(HOLE, Taint.DECODED | Taint.UNKNOWN)


def _unpack(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return Value(HOLE, Taint.DECODED | Taint.UNKNOWN | c.at(args, 1).taint)


def _glob(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return [Value(word, Taint.NONE, True) for word in c.at(args, 0).text.split()] or [ANYTHING]


CALLS: dict[str, Call] = {
    "system": _system,
    "exec": _system,
    "unlink": _unlink,
    "rmdir": c.remove_folder,
    "rmtree": c.remove_tree,
    "remove_tree": c.remove_tree,
    "File.Path.rmtree": c.remove_tree,
    "File.Path.remove_tree": c.remove_tree,
    "rename": c.move,
    "move": c.move,
    "copy": c.copy,
    "File.Copy.move": c.move,
    "File.Copy.copy": c.copy,
    "symlink": c.symlink,
    "link": c.hardlink,
    "chmod": c.chmod_first,
    "_diamond": _diamond,
    "readpipe": c.shell,
    "open2": _after(2),
    "open3": _after(3),
    "sysopen": _sysopen,
    "tie": _tied,
    "IO.File.new": _opened_by_new,
    "rm_f": _of_arguments(c.remove),
    "rm_rf": _of_arguments(c.remove_tree),
    "cp": _of_arguments(c.copy),
    "mv": _of_arguments(c.move),
    "truncate": c.truncate,
    "kill": c.kill_signal_first,
    "chdir": c.chdir,
    "open": _open,
    "eval": c.evaluate("perl"),
    "_evaluate_replacement": c.evaluate("perl"),
    "do": c.run_file("perl"),
    "require": c.run_file("perl"),
    "glob": _glob,
    "join": c.joined_last,
    "reverse": c.reverse,
    "sprintf": c.sprintf,
    "chr": c.characters,
    "pack": _pack,
    "unpack": _unpack,
    "decode_base64": c.from_base64,
    "MIME.Base64.decode_base64": c.from_base64,
    "IO.Socket.INET.new": _inet,
    "IO.Socket.IP.new": _inet,
    "IO.Socket.SSL.new": _inet,
    "IO.Socket.UNIX.new": c.by_path(_inet),
    "connect": _connect,
    "get": c.fetch,
    "LWP.Simple.get": c.fetch,
    "getstore": lambda r, args, owner: r.tell.download(c.at(args, 0), c.at(args, 1)),
    "*.unlink": c.remove,
    **dict.fromkeys(("*.post", "*.put", "*.post_form"), _posted),
    "*.remove": c.nothing,
    "*.do": c.query,
    "*.prepare": c.query,
    "$ENV": c.variable,
}

LANGUAGE = Language(
    Lexicon(
        "perl",
        ("#",),
        (("=pod", "\n=cut"), ("=head", "\n=cut")),
        identifier=r"[$@%&]?(?:[A-Za-z_]\w*(?:::\w+)*|[$@%]\{?\^?\w+\}?)|[$][_&!@0-9]|@_",
        commands="`",
        regexes=True,
        perl_quotes=True,
        heredocs=True,
    ),
    {
        **{f"{module}::{name}": call for name, call in CALLS.items() if name.isalnum() for module in ("CORE", "POSIX")},
        **{f"IPC::Open{number}::open{number}": _after(number) for number in (2, 3)},
        **{path.replace(".", "::") if not path.startswith(("*", "$")) else path: call for path, call in CALLS.items()},
        **{f"{path[:-4].replace('.', '::')}.new": call for path, call in CALLS.items() if path.endswith(".new")},
    },
    frozenset({"."}),
    bare=True,
    interpolation=Regex(r"(?<!\\)([$@]\w+(?:\{\w+\}|\[\d+\])?)|(?<!\\)@\{\[(.*?)\]\}|(?<!\\)\$\{(\w+)\}"),
    separators=frozenset({"->"}),
    indirect=frozenset({"exec", "system"}),
    reading="_diamond",
    in_patterns=Regex(r"\(\?\??\{(.*?)\}\)", re.DOTALL),
)
