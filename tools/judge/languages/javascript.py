"""JavaScript as node, deno and bun run it."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages import _script_calls as c
from tools.judge.languages._script import read_script
from tools.judge.languages._script_language import Call, Language, Opened, Ref, SourceReader, Thing, text
from tools.judge.languages._script_tokens import Lexicon
from tools.judge.languages._tell import join
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

_MODULES = frozenset(
    ["fs", "child_process", "os", "path", "net", "http", "https", "vm", "process", "zlib", "tls", "dgram", "dns"]
)
_ALIASES = {
    "fs/promises": "fs",
    "fs-extra": "fs",
    "graceful-fs": "fs",
    "shelljs": "shelljs",
    "axios": "axios",
    "rimraf": "rimraf",
    "del": "rimraf",
}


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    return read_script(code, args, sink, LANGUAGE)


def _require(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    name = c.at(args, 0)
    if not name.known:
        return Ref(HOLE)
    plain = name.text.removeprefix("node:")
    if plain.startswith((".", "/")) and not plain.endswith(".json"):
        r.tell.run([Value("node"), name])
    return Ref(_ALIASES.get(plain, plain))


def _remove(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    options = args[1] if len(args) > 1 and isinstance(args[1], dict) else {}
    recursive = "recursive" in options
    r.tell.remove(c.at(args, 0), recursive=recursive)
    return ANYTHING


def _spawn(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    words = [c.at(args, 0), *([text(one) for one in args[1]] if len(args) > 1 and isinstance(args[1], list) else [])]
    options = next((arg for arg in args if isinstance(arg, dict)), {})
    if len(args) > 1 and not isinstance(args[1], list | dict):
        words.append(ANYTHING)
    if "shell" in options:
        return c.shell(r, [join(words, " ")], owner)
    if c.reads_commands(words):
        return c.piped(r, words, text(options["input"]) if "input" in options else ANYTHING)
    return c.program_only(r, [*words], owner)


def _exec(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return c.shell(r, args, owner) if args else ANYTHING


def _buffer(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    codec = c.at(args, 1).text if len(args) > 1 else ""
    if codec.startswith("base64"):
        return c.from_base64(r, args, owner)
    if codec == "hex":
        return c.from_hex(r, args, owner)
    return c.characters(r, args[:1], owner) if args and isinstance(args[0], list) else c.at(args, 0)


def _fetch(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    url = args[0] if args else ANYTHING
    options = next((arg for arg in args if isinstance(arg, dict)), {})
    where = text(url) if not isinstance(url, dict) else text(url.get("url", url.get("hostname", ANYTHING)))
    body = options.get("body", options.get("data"))
    if body is not None:
        r.tell.send(text(body), where)
        found = Value(HOLE, Taint.REMOTE | Taint.UNKNOWN)
    else:
        found = r.tell.fetch(where)
    for name in ("r", "res", "response", "d", "data", "body", "chunk", "t", "text", "c", "resp", "s", "x", "b", "code"):
        r.names.setdefault(name, Opened("response", found))
    return Opened("response", found)


def _request(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    """``http.request``: what is written to it is sent."""
    found = _fetch(r, args, owner)
    to = args[0] if args else ANYTHING
    where = text(to.get("host", to.get("hostname", ANYTHING))) if isinstance(to, dict) else text(to)
    r.connected = (c.host_of(where), Value(""))
    return Opened("socket", text(found))


def _look_up(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    r.tell.look_up(c.at(args, 0))
    return ANYTHING


def _stringify(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    given = args[0] if args else ANYTHING
    if isinstance(given, Ref) and given.path == "process.env":
        return Value(HOLE, Taint.SECRET | Taint.UNKNOWN)
    taint = Taint.UNKNOWN
    for one in given.values() if isinstance(given, dict) else [given]:
        taint |= text(one).taint
    return Value(HOLE, taint)


def _connect(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    found = c.connect(r, args, owner)
    for name in ("client", "socket", "s", "c", "conn"):
        r.names.setdefault(name, found)
    return found


def _deno_command(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    options = args[1] if len(args) > 1 and isinstance(args[1], dict) else {}
    more = options.get("args", [])
    return c.program_only(r, [c.at(args, 0), *(more if isinstance(more, list) else [ANYTHING])], owner)


def _deno_run(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    options = args[0] if args else None
    words = options.get("cmd", [ANYTHING]) if isinstance(options, dict) else options if isinstance(options, list) else [ANYTHING]
    return c.program_only(r, [words], owner)


_FS: dict[str, Call] = {
    "rm": _remove,
    "unlink": c.remove,
    "rmdir": _remove,
    "remove": c.remove_tree,
    "emptyDir": c.remove_tree,
    "rename": c.move,
    "move": c.move,
    "copyFile": c.copy,
    "cp": c.copy_tree,
    "copy": c.copy_tree,
    "symlink": c.symlink,
    "link": c.hardlink,
    "chmod": c.chmod_last,
    "chown": c.chown_last,
    "truncate": c.truncate,
    "writeFile": c.write,
    "outputFile": c.write,
    "createWriteStream": c.write,
    "appendFile": c.append,
    "readFile": c.read_file,
    "createReadStream": c.read_file,
}


def _rmdir(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    options = args[1] if len(args) > 1 and isinstance(args[1], dict) else {}
    if "recursive" in options:
        return c.remove_tree(r, args[:1], owner)
    return c.remove_folder(r, args, owner)


_FS["rmdir"] = _rmdir
_PROCESSES: dict[str, Call] = {
    "exec": _exec,
    "spawn": _spawn,
    "execFile": _spawn,
    "fork": lambda r, args, owner: r.tell.run([Value("node"), c.at(args, 0)]),
}
CALLS: dict[str, Call] = {
    **{f"fs.{name}{tail}": call for name, call in _FS.items() for tail in ("", "Sync")},
    **{f"fs.promises.{name}": call for name, call in _FS.items()},
    **{f"child_process.{name}{tail}": call for name, call in _PROCESSES.items() for tail in ("", "Sync")},
    **{
        f"{prefix}{name}Sync": call
        for name, call in _FS.items()
        if name in ("rm", "unlink", "rmdir", "writeFile", "rename")
        for prefix in ("*.", "")
    },
    **{f"*.{name}": call for name, call in (("execSync", _exec), ("spawnSync", _spawn), ("execFileSync", _spawn))},
    "rimraf": c.remove_tree,
    "rimraf.sync": c.remove_tree,
    "rimraf.rimraf": c.remove_tree,
    "shelljs.exec": _exec,
    "shelljs.rm": c.remove_tree,
    **{
        f"Deno.{name}{tail}": call
        for name, call in (
            ("remove", _remove),
            ("writeTextFile", c.write),
            ("writeFile", c.write),
            ("rename", c.move),
            ("chmod", c.chmod_last),
            ("readTextFile", c.read_file),
        )
        for tail in ("", "Sync")
    },
    "new Deno.Command": _deno_command,
    "Deno.run": _deno_run,
    "Deno.kill": c.kill_pid_first,
    "Bun.spawn": _deno_run,
    "Bun.spawnSync": _deno_run,
    "Bun.write": c.write,
    "process.kill": c.kill_pid_first,
    "process.chdir": c.chdir,
    "process.binding": c.nothing,
    "process.mainModule.require": _require,
    "module.require": _require,
    "globalThis.require": _require,
    "global.require": _require,
    "require": _require,
    "import": _require,
    "eval": c.evaluate("javascript"),
    "Function": c.evaluate("javascript"),
    "new Function": c.evaluate("javascript"),
    "vm.runInThisContext": c.evaluate("javascript"),
    "vm.runInNewContext": c.evaluate("javascript"),
    "new vm.Script": c.evaluate("javascript"),
    "Buffer.from": _buffer,
    "new Buffer": _buffer,
    "atob": c.from_base64,
    "unescape": c.from_url,
    "decodeURIComponent": c.from_url,
    "String.fromCharCode": c.characters,
    "String.fromCodePoint": c.characters,
    "fetch": _fetch,
    "axios.get": _fetch,
    "axios.post": c.post,
    "http.get": _fetch,
    "https.get": _fetch,
    "http.request": _request,
    "https.request": _request,
    **{f"dns.{name}": _look_up for name in ("lookup", "resolve", "resolve4", "resolve6", "resolveTxt")},
    **{f"dns.promises.{name}": _look_up for name in ("lookup", "resolve", "resolve4", "resolve6", "resolveTxt")},
    "net.connect": c.by_path(_connect),
    "net.createConnection": c.by_path(_connect),
    "new net.Socket": c.nothing,
    "tls.connect": _connect,
    "os.homedir": lambda r, args, owner: Value("~"),
    "path.join": c.joined_path,
    "path.resolve": c.joined_path,
    "JSON.stringify": _stringify,
    "$.system": _exec,
    "$.popen": _exec,
    "$.unlink": c.remove,
    "*.doShellScript": _exec,
    "*.connect": _connect,
    "*.toString": c.same,
    "*.trim": c.same,
    "*.text": c.content,
    "*.join": c.joined,
    "*.reverse": c.reverse,
    "*.concat": lambda r, args, owner: join([text(owner), *c.words_of(args)]),
    "*.split": lambda r, args, owner: (
        [text(owner)._replace(text=one) for one in text(owner).text]
        if c.at(args, 0).text == ""
        else [text(owner)._replace(text=one) for one in text(owner).text.split(c.at(args, 0).text)]
    ),
    "*.query": c.query,
    "*.write": c.send,
    "*.end": c.send,
    "[]": lambda r, args, owner: (
        c.variable(r, args, owner)
        if owner.path == "process.env"
        else Ref(c.at(args, 0).text if owner.path in ("globalThis", "global") else f"{owner.path}.{c.at(args, 0).text}")
    ),
}

LANGUAGE = Language(
    Lexicon(
        "javascript",
        ("//", "#!"),
        (("/*", "*/"),),
        identifier=r"[A-Za-z_$][\w$]*",
        interpolating="`",
        plain="'\"",
        regexes=True,
    ),
    CALLS,
    frozenset({"+"}),
    interpolation=Regex(r"(?<!\\)\$\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}"),
    modules=_MODULES,
    separators=frozenset({".", "?."}),
)
