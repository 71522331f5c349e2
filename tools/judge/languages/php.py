"""PHP."""

from __future__ import annotations

import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.languages import _script_calls as c
from tools.judge.languages._script import read_script
from tools.judge.languages._script_language import Call, Language, Opened, SourceReader, Thing, text
from tools.judge.languages._script_tokens import Lexicon
from tools.judge.meaning.act import Code, Sink
from tools.judge.meaning.value import ANYTHING, Value


def read(code: Code, args: Sequence[Value], sink: Sink) -> bool:
    source = (
        re.sub(r"\?>.*?(?:<\?(?:php|=)?|\Z)", ";", code.text.text, flags=re.DOTALL) if "?>" in code.text.text else code.text.text
    )
    source = source.replace("<?php", " ").replace("<?=", " ")
    return read_script(code._replace(text=code.text._replace(text=source)), args, sink, LANGUAGE)


def _open(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    path, mode = c.at(args, 0), c.at(args, 1).text
    if mode[:1] in ("w", "a", "x", "c") or "+" in mode:
        return Opened("file", ANYTHING, r.tell.begin(path, mode[:1] == "a"))
    return Opened("file", text(c.read_file(r, args, owner)))


def _write(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return c.send(r, args[1:], args[0] if args else None)


def _get(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return text(args[0]) if args else ANYTHING


def _call_user(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    found = CALLS.get(c.at(args, 0).text.lower())
    if found is not None:
        return found(r, args[1:], owner)
    if not c.at(args, 0).known:
        r.tell.code("php", c.at(args, 0))
    return ANYTHING


def _put(r: SourceReader, args: list[Thing], owner: Thing) -> Thing:
    return c.append(r, args, owner) if len(args) > 2 else c.write(r, args, owner)


CALLS: dict[str, Call] = {
    **dict.fromkeys(("system", "exec", "shell_exec", "passthru", "popen"), c.shell),
    "proc_open": c.program,
    "pcntl_exec": c.program_only,
    "unlink": lambda r, args, owner: c.remove(r, args[:1], owner),
    "rmdir": c.remove_folder,
    "rename": c.move,
    "copy": c.copy,
    "symlink": c.symlink,
    "link": c.hardlink,
    "chmod": c.chmod_last,
    "chown": c.chown_last,
    "chdir": c.chdir,
    "file_put_contents": _put,
    "file_get_contents": c.read_file,
    "readfile": c.read_file,
    "file": c.read_file,
    "fopen": _open,
    "fwrite": _write,
    "fputs": _write,
    "fread": _get,
    "fgets": _get,
    "stream_get_contents": _get,
    "fsockopen": c.by_path(c.connect),
    "pfsockopen": c.by_path(c.connect),
    "curl_init": c.connect,
    "stream_socket_client": c.by_path(c.connect),
    "posix_kill": c.kill_pid_first,
    "eval": c.evaluate("php"),
    "assert": c.evaluate("php"),
    "create_function": lambda r, args, owner: c.evaluate("php")(r, args[1:], owner),
    "include": c.run_file("php"),
    "require": c.run_file("php"),
    "call_user_func": _call_user,
    "call_user_func_array": lambda r, args, owner: _call_user(
        r, [*args[:1], *(args[1] if len(args) > 1 and isinstance(args[1], list) else args[1:])], owner
    ),
    "array_map": _call_user,
    "base64_decode": c.from_base64,
    "hex2bin": c.from_hex,
    "str_rot13": c.from_rot13,
    "urldecode": c.from_url,
    "rawurldecode": c.from_url,
    "gzinflate": c.from_raw_deflate,
    "gzuncompress": c.from_deflate,
    "gzdecode": c.from_deflate,
    "strrev": c.reverse,
    "chr": c.characters,
    "implode": c.joined_last,
    "join": c.joined_last,
    "sprintf": c.sprintf,
    "glob": c.pattern,
    "getenv": c.variable,
    "trim": c.first,
    "escapeshellarg": c.first,
    "mysqli_query": c.query,
    "*.query": c.query,
    "*.exec": c.query,
    "*.prepare": c.query,
}

LANGUAGE = Language(
    Lexicon(
        "php",
        ("//", "#"),
        (("/*", "*/"),),
        identifier=r"\$?\\?[A-Za-z_]\w*(?:\\\w+)*",
        commands="`",
        heredocs=True,
    ),
    CALLS,
    frozenset({"."}),
    interpolation=Regex(r"(?<!\\)\{?(\$\w+)(?:\[\w+\])?\}?"),
    separators=frozenset({"->", "::", "?."}),
)
