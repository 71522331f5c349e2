"""ruby."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages import _script_calls as c
from tools.judge.languages._script import read_script
from tools.judge.languages._script_language import Call, Language, Opened, SourceReader, Thing
from tools.judge.languages._script_tokens import Lexicon
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    return read_script(code, args, sink, LANGUAGE)


def _open(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    path, mode = c.at(args, 0), c.at(args, 1).text if len(args) > 1 and isinstance(args[1], Value) else "r"
    if path.text.startswith("|"):
        return c.shell(r, [path._replace(text=path.text[1:])], owner)
    if path.text.startswith(("http://", "https://")):
        return c.fetch(r, args, owner)
    if mode[:1] in ("w", "a") or "+" in mode:
        opened = Opened("file", ANYTHING, r.tell.begin(path, mode[:1] == "a"))
        if r.peek().raw in ("{", "do") and r.peek(1).raw == "|" and r.peek(2).kind == "id":
            r.names[r.peek(2).raw] = opened
            r.at += 4
        return opened
    return Opened("file", r.tell.read(path))


def _popen(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    words = c.at(args, 0).text.split() if args and not isinstance(args[0], list) else []
    shell = [Value(word) for word in words]
    writes = len(args) > 1 and isinstance(args[1], Value) and ("w" in args[1].text or "+" in args[1].text)
    return c.piped(r, shell) if writes and c.reads_commands(shell) else c.program(r, args, owner)


def _send(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``Kernel.send(:system, "...")``"""
    found = CALLS.get(c.at(args, 0).text.lstrip(":")) if args and isinstance(args[0], Value) else None
    if found is not None:
        return found(r, args[1:], owner)
    return c.send(r, args, owner)


def _unpacked(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    kind = c.at(args, 0).text
    given = owner if isinstance(owner, Value) else ANYTHING
    if kind.startswith("m"):
        return c.from_base64(r, [given], owner)
    return Value(HOLE, Taint.DECODED | Taint.UNKNOWN | given.taint)


def _packed(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    kind = c.at(args, 0).text
    items = owner if isinstance(owner, list) else [owner]
    if kind.startswith("H"):
        return c.from_hex(r, items, owner)
    return c.characters(r, items, owner) if kind[:1] in "cCU" else Value(HOLE, Taint.DECODED | Taint.UNKNOWN)


def _at(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``ENV["HOME"]``, ``Dir["*"]``"""
    if owner.path == "ENV":
        return c.variable(r, args, owner)
    return c.pattern(r, args, owner) if owner.path == "Dir" else ANYTHING


def _system(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return c.program(r, args, owner)


_KERNEL: dict[str, Call] = {
    "system": _system,
    "exec": _system,
    "spawn": _system,
    "fork": c.nothing,
    "open": _open,
    "eval": c.evaluate("ruby"),
    "load": c.run_file("ruby"),
    "require_relative": c.run_file("ruby"),
}
CALLS: dict[str, Call] = {
    **_KERNEL,
    **{f"Kernel.{name}": call for name, call in _KERNEL.items()},
    "Process.spawn": _system,
    "Process.exec": _system,
    "Process.kill": c.kill_signal_first,
    "IO.popen": _popen,
    **{f"Open3.{name}": c.program for name in ("popen3", "popen2", "popen2e", "capture2", "capture2e", "capture3", "pipeline")},
    "PTY.spawn": c.program,
    **{f"File.{name}": c.remove for name in ("delete", "unlink")},
    **{
        f"FileUtils.{name}": c.remove_tree
        for name in ("rm_r", "rm_rf", "rmtree", "remove_dir", "remove_entry", "remove_entry_secure")
    },
    **{f"FileUtils.{name}": c.remove for name in ("rm", "rm_f", "remove", "safe_unlink")},
    **dict.fromkeys(("rm_rf", "rm_r"), c.remove_tree),
    "Dir.rmdir": c.remove_folder,
    "Dir.delete": c.remove_folder,
    "Dir.unlink": c.remove_folder,
    "FileUtils.rmdir": c.remove_folder,
    "FileUtils.mv": c.move,
    "FileUtils.move": c.move,
    "File.rename": c.move,
    "FileUtils.cp": c.copy,
    "FileUtils.copy": c.copy,
    "FileUtils.cp_r": c.copy_tree,
    "FileUtils.ln_s": c.symlink,
    "FileUtils.ln_sf": c.symlink,
    "File.symlink": c.symlink,
    "File.link": c.hardlink,
    "File.chmod": c.chmod_first,
    "FileUtils.chmod": c.chmod_first,
    "FileUtils.chmod_R": lambda r, args, owner: r.tell.chmod(
        args[0] if args and isinstance(args[0], int) else c.at(args, 0), c.at(args, 1), True
    ),
    "FileUtils.chown_R": lambda r, args, owner: r.tell.chown(c.at(args, 0), c.at(args, 2), True),
    "File.truncate": c.truncate,
    "File.write": c.write,
    "IO.write": c.write,
    "File.binwrite": c.write,
    "File.open": _open,
    "File.new": _open,
    "File.read": c.read_file,
    "IO.read": c.read_file,
    "File.readlines": c.read_file,
    "URI.open": _open,
    "URI": c.first,
    "URI.parse": c.first,
    "Net.HTTP.get": c.fetch,
    "Net.HTTP.get_response": c.fetch,
    "Net.HTTP.post": c.post,
    "Net.HTTP.post_form": c.post,
    "TCPSocket.new": c.connect,
    "TCPSocket.open": c.connect,
    "Socket.tcp": c.connect,
    **dict.fromkeys(("UNIXSocket.new", "UNIXSocket.open", "Socket.unix"), c.by_path(c.connect)),
    "Dir.glob": c.pattern,
    "[]": _at,
    "Dir.chdir": c.chdir,
    "Dir.home": lambda r, args, owner: Value("~"),
    "File.join": c.joined_path,
    "File.expand_path": c.first,
    "Base64.decode64": c.from_base64,
    "Base64.strict_decode64": c.from_base64,
    "Base64.urlsafe_decode64": c.from_base64,
    "Zlib.Inflate.inflate": c.from_deflate,
    "sprintf": c.sprintf,
    "format": c.sprintf,
    "ENV.fetch": c.variable,
    "*.unpack1": _unpacked,
    "*.unpack": _unpacked,
    "*.pack": _packed,
    "*.reverse": c.reverse,
    "*.join": c.joined,
    "*.first": c.first_of,
    "*.chr": lambda r, args, owner: c.characters(r, [owner], owner),
    "*.read": c.content,
    "*.gets": c.content,
    "*.body": c.content,
    "*.to_s": c.same,
    "*.strip": c.same,
    "*.chomp": c.same,
    "*.write": c.send,
    "*.puts": c.send,
    "*.print": c.send,
    "*.send": _send,
    "*.public_send": _send,
    "*.__send__": _send,
    "*.instance_eval": c.evaluate("ruby"),
    "*.class_eval": c.evaluate("ruby"),
    "*.execute": c.query,
    "*.exec": c.query,
    "*.delete": c.nothing,
    "*.each": c.same,
    "send": _send,
}

LANGUAGE = Language(
    Lexicon(
        "ruby",
        ("#",),
        (("=begin", "\n=end"),),
        identifier=r"[@$]{0,2}[A-Za-z_]\w*[?!]?|:[A-Za-z_]\w*(?!:)",
        commands="`",
        regexes=True,
        percent=True,
        heredocs=True,
    ),
    CALLS,
    frozenset({"+", "<<"}),
    bare=True,
    interpolation=Regex(r"(?<!\\)#\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"),
    separators=frozenset({".", "::", "&."}),
)
