"""Methods of Python's objects: paths, files, processes, sockets, clients, and of what is unknown but well named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from toolcrib.contract.regex import Regex
from tools.judge.languages import _python_pure as pure
from tools.judge.languages._python_builtins import write_to
from tools.judge.languages._python_effects import EFFECTS, open_file
from tools.judge.languages._python_evaluator import Evaluator
from tools.judge.languages._python_network import request
from tools.judge.languages._python_processes import signal_of
from tools.judge.languages._python_pure import arg
from tools.judge.languages._python_values import ManyThings, Name, Obj, PathThing, Thing, Unknown, dump, taint_of, text
from tools.judge.languages._tell import join
from tools.judge.meaning.value import ANYTHING, HOLE, Taint, Value

Handler: TypeAlias = Callable[[Evaluator, Thing, str, list[Thing], dict[str, Thing]], Thing]

_SQL = Regex(
    r"\s*(?:--.*\n\s*|/\*.*?\*/\s*)*(?:DROP|TRUNCATE|DELETE|UPDATE|ALTER|GRANT|REVOKE|CREATE|COPY|SET|EXEC|SHUTDOWN|SELECT|INSERT"
    r"|PRAGMA|ATTACH|WITH|BEGIN|DO|CALL)\b",
    re.IGNORECASE,
)


# -- pathlib -------------------------------------------------------------------------------------------------------


def _path_changes(m: Evaluator, path: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    where = text(path)
    match name:
        case "unlink":
            m.tell.remove(where)
        case "rmdir":
            m.tell.remove_folder(where)
        case "rmtree":
            m.tell.remove(where, recursive=True)
        case "rename" | "replace" | "move" | "move_into":
            m.tell.move(where, text(arg(args, named, 0, "target")))
            return PathThing(text(arg(args, named, 0, "target")))
        case "chmod" | "lchmod":
            mode = arg(args, named, 0, "mode")
            m.tell.chmod(mode if isinstance(mode, int) else text(mode), where)
        case "symlink_to":
            m.tell.link(text(arg(args, named, 0, "target")), where, symbolic=True)
        case "hardlink_to" | "link_to":
            m.tell.link(text(arg(args, named, 0, "target")), where, symbolic=False)
    return None


def _path_content(m: Evaluator, path: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    where = text(path)
    if name in ("write_text", "write_bytes"):
        m.tell.write(where, dump(arg(args, named, 0, "data")))
        return None
    if name == "open":
        return open_file(m, where, arg(args, named, 0, "mode", Value("r")))
    return m.tell.read(where)


def _path_derived(m: Evaluator, path: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    where = text(path)
    if name in ("glob", "rglob"):
        below = [Value("**", pattern=True)] if name == "rglob" else []
        return ManyThings(PathThing(pure.path_join([where, *below, text(arg(args, named, 0))._replace(pattern=True)])))
    if name == "iterdir":
        return ManyThings(PathThing(pure.path_join([where, Value("*", pattern=True)])))
    if name == "joinpath":
        return PathThing(pure.path_join([where, *[text(one) for one in args]]))
    if name in ("with_name", "with_suffix", "with_stem"):
        parent, given = where.text.rpartition("/"), text(arg(args, named, 0))
        head = where._replace(text=parent[0] + parent[1])
        if name == "with_name":
            return PathThing(join([head, given]))
        stem = parent[2].rpartition(".")[0] or parent[2]
        return PathThing(join([head, Value(stem), given]) if name == "with_suffix" else join([head, given]))
    if name in ("as_posix", "__str__", "__fspath__"):
        return where
    return path


# -- files, processes, sockets -------------------------------------------------------------------------------------


def _file(m: Evaluator, file: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if name == "write":
        write_to(m, file, dump(args[0]) if args else ANYTHING)
    elif name == "writelines":
        items = pure.items(args[0]) if args else None
        write_to(m, file, join([dump(one) for one in items]) if items is not None else Value(HOLE, taint_of(args)))
    elif name in ("read", "readline", "getvalue", "read_text"):
        return file.fields.get("content", Value(HOLE, taint_of(file) | Taint.UNKNOWN))
    elif name == "readlines":
        content = file.fields.get("content")
        if content is not None and content.known:
            return [content._replace(text=line) for line in content.text.splitlines(keepends=True)]
        return ManyThings(Value(HOLE, taint_of(file) | Taint.UNKNOWN))
    elif name == "truncate" and "path" in file.fields:
        m.tell.truncate(text(file.fields["path"]), text(args[0] if args else 0))
    elif name in ("close", "flush"):
        m.tell.flush()
    elif name in ("fileno", "__enter__", "detach"):
        return file
    return Unknown(taint_of(file))


def _process(m: Evaluator, process: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    output = Value(HOLE, taint_of(process) | Taint.UNKNOWN)
    if name == "communicate":
        if "start" in process.fields and not process.fields.get("told"):
            given = arg(args, named, 0, "input", None)
            process.fields["start"](dump(given) if given is not None else None)
        return (output, output)
    if name in ("write", "writelines") and args:
        if "start" in process.fields:
            process.fields["start"](dump(args[0]))
        else:
            m.tell.shell(process.fields.get("command", ANYTHING), dump(args[0]))
        return None
    if name in ("read", "readlines", "readline"):
        return output
    return Unknown(taint_of(process))


def _socket(m: Evaluator, sock: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if name in ("connect", "connect_ex"):
        address: Thing = args[0] if args else None
        if type(address) in (tuple, list) and len(address) > 1:
            sock.fields["host"], sock.fields["port"] = text(address[0]), text(address[1])
        else:
            m.tell.connect(text(address))
            sock.fields["host"], sock.fields["port"] = ANYTHING, ANYTHING
    elif name in ("send", "sendall", "sendto", "sendfile", "write"):
        host, port = sock.fields.get("host"), sock.fields.get("port")
        if host is not None and port is not None:
            m.tell.send(dump(args[0]) if args else ANYTHING, join([Value("tcp://"), host, Value(":"), port]))
        elif name == "sendto":
            m.tell.send(
                dump(args[0]) if args else ANYTHING,
                join([Value("udp://"), text(args[-1][0] if type(args[-1]) is tuple else None)]),
            )
    elif name in ("recv", "recvfrom", "read", "readline", "recv_into"):
        return Value(HOLE, Taint.REMOTE | Taint.UNKNOWN)
    elif name == "accept":
        return (Obj("socket", None, taint=Taint.REMOTE), Unknown())
    elif name in ("fileno", "makefile", "dup", "detach"):
        return sock
    return Unknown(Taint.REMOTE)


def _response(m: Evaluator, response: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    return Value(HOLE, Taint.REMOTE | Taint.UNKNOWN)


def _client(m: Evaluator, client: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if name in ("get", "post", "put", "patch", "delete", "head", "request", "stream", "send", "urlopen"):
        return request("request" if name == "urlopen" else name)(m, args, named)
    return client


def _service(m: Evaluator, service: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    """http.client, smtplib, ftplib."""
    url = text(service.fields.get("url"))
    if name == "request":
        where = join([url, text(arg(args, named, 1, "url"))])
        body = arg(args, named, 2, "body", None)
        if body is not None:
            m.tell.send(dump(body), where)
        else:
            m.tell.fetch(where)
    elif name in ("sendmail", "send_message", "storbinary", "storlines"):
        data = (
            args[2]
            if name == "sendmail" and len(args) > 2
            else args[1]
            if name.startswith("stor") and len(args) > 1
            else arg(args, named, 0)
        )
        m.tell.send(dump(data), url)
    elif name in ("getresponse", "retrbinary", "retrlines", "read"):
        return Obj("response", None, taint=Taint.REMOTE)
    return Unknown(Taint.NONE)


def _environ(m: Evaluator, environ: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    key = pure.key(args[0]) if args else None
    if name in ("get", "__getitem__", "pop", "setdefault"):
        return pure.variable(key if isinstance(key, str) else None)
    if name in ("update",):
        for one, value in {**(args[0] if args and isinstance(args[0], dict) else {}), **named}.items():
            if isinstance(one, str):
                m.tell.environment[one] = text(value)
        return None
    return (
        {Value(HOLE, Taint.SECRET): Value(HOLE, Taint.SECRET)}
        if name == "copy"
        else ManyThings(Value(HOLE, Taint.SECRET | Taint.UNKNOWN))
    )


def _library(m: Evaluator, library: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    effect = EFFECTS.get(f"os.{name}")
    return effect(m, args, named) if effect is not None else Unknown()


def _list(m: Evaluator, owner: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if name == "append" and args and len(owner) < pure.MAX_ITEMS:
        owner.append(args[0])
    elif name == "extend" and args:
        owner.extend((pure.items(args[0]) or [Unknown(taint_of(args))])[: pure.MAX_ITEMS])
    elif name == "insert" and len(args) > 1 and isinstance(args[0], int):
        owner.insert(args[0], args[1])
    elif name == "pop" and owner:
        at = args[0] if args and isinstance(args[0], int) else -1
        return owner.pop(at) if -len(owner) <= at < len(owner) else Unknown()
    elif name == "reverse":
        owner.reverse()
    elif name == "copy":
        return list(owner)
    elif name in ("remove", "clear", "sort", "index", "count"):
        return None
    return None


def _mapping(m: Evaluator, owner: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    if name in ("get", "pop", "setdefault", "__getitem__"):
        found = m.item(owner, args[0]) if args else Unknown()
        return args[1] if isinstance(found, Unknown) and len(args) > 1 else found
    if name == "update":
        owner.update({**(args[0] if args and isinstance(args[0], dict) else {}), **named})
        return None
    if name == "items":
        return [(Value(key) if isinstance(key, str) else key, value) for key, value in owner.items()]
    if name == "values":
        return list(owner.values())
    if name == "keys":
        return pure.items(owner)
    return dict(owner) if name == "copy" else Unknown(taint_of(owner))


METHODS: dict[tuple[str, str], Handler] = {
    **{
        ("path", name): _path_changes
        for name in re.findall(
            r"\w+", """unlink rmdir rmtree rename replace move move_into chmod lchmod symlink_to hardlink_to link_to"""
        )
    },
    **{("path", name): _path_content for name in ["write_text", "write_bytes", "open", "read_text", "read_bytes"]},
    **{
        ("path", name): _path_derived
        for name in re.findall(
            r"\w+",
            """glob rglob iterdir joinpath with_name with_suffix with_stem as_posix __str__ __fspath__ expanduser resolve
    absolute relative_to""",
        )
    },
    ("file", "*"): _file,
    ("popen", "*"): _process,
    ("process", "*"): _process,
    ("socket", "*"): _socket,
    ("response", "*"): _response,
    ("client", "*"): _client,
    ("service", "*"): _service,
    ("environ", "*"): _environ,
    ("library", "*"): _library,
    ("list", "*"): _list,
    ("dict", "*"): _mapping,
}

_MONGO = {"drop_database": "dropDatabase()", "drop_collection": "drop()"}
_REDIS = frozenset({"flushall", "flushdb"})
_KINDS = {
    "psutil.process_iter": "processes",
    "boto3.client": "boto3",
    "boto3.resource": "boto3",
    "boto3.Session": "boto3",
    "boto3.session.Session": "boto3",
}
"""Kinds of objects that a library's functions return, where a method of the object decides the effect."""
_CLOUD_LOSS = Regex(r"(?:delete|terminate|purge|deregister|schedule_key_deletion)(?:_\w+)?$")


def _of_library(m: Evaluator, owner: Thing, name: str, args: list[Thing]) -> str:
    """Report the effect of a method of sh, psutil or boto3; return the kind of its result, "" where nobody knows."""
    if isinstance(owner, Name):
        if owner.path == "sh" and name.isidentifier():  # its functions are programs
            m.tell.run([Value(name.rstrip("_").replace("_", "-")), *map(text, args)])
        return _KINDS.get(f"{owner.path}.{name}", "")
    kind = owner.kind if isinstance(owner, Unknown) else ""
    if kind == "processes" and name in ("kill", "terminate"):
        m.tell.words("pkill", ANYTHING)
    elif kind == "boto3" and _CLOUD_LOSS.match(name):
        m.tell.words("aws", "api", name.replace("_", "-"))
    return kind


_TOLD: dict[str, Callable[[Evaluator, list[Thing], dict[str, Thing]], None]] = {
    "exec_command": lambda m, args, named: m.tell.run([Value("ssh"), ANYTHING, text(args[0] if args else None)]),
    "extractall": lambda m, args, named: m.tell.unpack(ANYTHING, text(args[0] if args else named.get("path", Value(".")))),
}


def method_of_unknown(m: Evaluator, owner: Thing, name: str, args: list[Thing], named: dict[str, Thing]) -> Thing:
    """A method whose owner isn't known; only names that say what they do."""
    taint = taint_of([owner, *args, *named.values()]) & ~Taint.UNKNOWN
    kind = _of_library(m, owner, name, args)
    if name in ("unlink", "rmdir", "rmtree", "write_text", "write_bytes") and not isinstance(owner, Name):
        handler = _path_content if name.startswith("write") else _path_changes
        return handler(m, Value(HOLE, taint | Taint.UNKNOWN), name, args, named)
    if name in ("execute", "executescript", "executemany", "exec_driver_sql", "raw", "command"):
        given = text(args[0] if args else None)
        if _SQL.match(given.text):
            m.tell.code("sql", given)
        elif name == "execute" and isinstance(owner, Name) and owner.path == "os":
            m.tell.code("python", given)
    elif name in _MONGO:
        m.tell.words("@mongo", f"db.{_MONGO[name]}")
    elif name in ("delete_many", "remove") and args and args[0] == {} and isinstance(args[0], dict):
        m.tell.words("@mongo", "db.deleteMany({})")
    elif name in _REDIS:
        m.tell.words("redis-cli", name.upper())
    elif name in _TOLD:
        _TOLD[name](m, args, named)
    elif name == "send_signal" or (name == "kill" and len(args) > 1):
        m.tell.kill(signal_of(args), text(args[0])) if name == "kill" else None
    elif name in ("system", "popen") and isinstance(owner, Unknown) and owner.kind == "dunder":
        return EFFECTS[f"os.{name}"](m, args, named)
    elif name in ("send", "sendall", "post", "upload_file") and taint & Taint.SECRET:
        m.tell.send(dump(args[0] if args else next(iter(named.values()), None)), ANYTHING)
    return Unknown(taint | Taint.UNKNOWN, kind)
