"""Output of programs that only rearrange their arguments or their input, if it can be known; otherwise its taint."""

from __future__ import annotations

import base64
import binascii
import codecs
import posixpath
import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, tables
from tools.judge.meaning.printing import echo, printf
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import EMPTY, HOLE, Taint, Value, changed, joined, names, tainted, unknown
from tools.judge.meaning.variables import folder, is_maybe_unset, scalar
from tools.judge.meaning.walk import Walker
from tools.judge.options import read

Values = Sequence[Value]

_REMOTE = names(
    "curl wget nc ncat netcat socat ssh scp sftp ftp lynx links w3m fetch aria2c http https xh telnet "
    "openssl-s_client dig host nslookup gh glab rclone ipfs lftp tftp axel drill"
)
_DECODERS = names(
    "base64 base32 basenc openssl xxd gunzip zcat gzip bzcat bunzip2 xzcat unxz xz zstdcat unzstd zstd lz4 unlz4 lzma "
    "unlzma brotli gpg gpg2 age uudecode ascii85 unzip funzip 7z bzip2 uncompress pigz"
)
_SUMMARIES = names(
    "wc md5sum sha1sum sha256sum sha512sum cksum sum test stat du ls file which type id date hostname whoami pwd "
    "uname nproc true false kill pgrep pidof ps sleep mkdir rm touch chmod seq mktemp dirname"
)
_READERS = names(
    "cat tac nl head tail sed awk gawk mawk grep egrep fgrep rg cut sort uniq tr rev fold fmt paste join comm column "
    "expand strings od hexdump xxd base64 base32 less more most bat jq yq tee iconv dos2unix shuf split zcat gunzip "
    "gzip xz bzcat view pr nkf envsubst perl xargs diff"
)

LISTERS = names(
    "find gfind bfs fd fdfind ls dir vdir tree du locate plocate mlocate mdfind git rg grep egrep fgrep ag ack ugrep compgen"
)
"""Programs that print names of files."""
_NAMES_OF_MATCHES = Regex(r"-[a-zA-Z]*[lL][a-zA-Z]*|-g|--files.*")
_LIST_IF = {
    **dict.fromkeys(names("rg grep egrep fgrep ag ack ugrep"), _NAMES_OF_MATCHES),
    "git": Regex("ls-files|ls-tree|grep|diff|status|show|log"),
}
"""Programs that print names of files only if one of their words matches."""


def of_program(it: Walker, state: State, name: str, argv: Values) -> Value:
    """Return a program's output, with a HOLE for an unknown part."""
    if name == "mktemp":
        return _of_program(it, state, name, argv)
    if name == "echo":
        return changed(echo(argv, escapes="xpg_echo" in state.options))
    if name == "printf":
        return changed(printf(argv))
    found = changed(_of_program(it, state, name, argv))
    if HOLE not in found.text:
        return found
    if _computes(name, argv):
        return tainted(found, Taint.COMPUTED)
    return tainted(found, Taint.FOUND) if lists_files(name, argv) else found


def _computes(name: str, argv: Values) -> bool:
    """Return whether a program's output is computed by code that does not belong to the system."""
    if "/" in argv[0].text and not argv[0].text.startswith(filestate.FIXED):
        return True
    return name not in _READERS and tables.interpreter(name) is not None


def lists_files(name: str, argv: Values) -> bool:
    """Return whether a program may print names of files that are in none of its words."""
    if name in LISTERS:
        return name not in _LIST_IF or any(_LIST_IF[name].fullmatch(value.text) for value in argv[1:])
    return any(value.pattern for value in argv[1:])


def _of_program(it: Walker, state: State, name: str, argv: Values) -> Value:
    known = tables.OUTPUTS.rows.get(name)
    if known is not None:
        return known(it, state, argv)
    stdin, operands = _input(it, state, name, argv)
    handler = tables.FILTERS.rows.get(name)
    if handler is not None and stdin is not None:
        got = handler([value.text for value in argv[1:]], operands, stdin) if joined(argv).known else None
        if got is not None:
            return got
        if name in _DECODERS and _decodes(name, argv):
            return unknown(stdin.taint | Taint.DECODED)
        return unknown(stdin.taint)
    return _by_taint(name, argv, stdin)


def _input(it: Walker, state: State, name: str, argv: Values) -> tuple[Value | None, list[str]]:
    """Return a program's input and its operands. The input is the files among its arguments, otherwise standard input."""
    operands: list[Value] = []
    ended = False
    for value in argv[1:]:
        if ended or not value.text.startswith("-") or value.text == "-":
            operands.append(value)
        elif value.text == "--":
            ended = True
    texts = [value.text for value in operands]
    if name not in _READERS and name not in tables.FILTERS.rows and name not in _DECODERS:
        return state.stdin, texts
    paths = _paths(name, argv, operands)
    found: list[Value] = []
    for path in paths:
        got = filestate.content(it, state, path)
        if got is not None:
            found.append(got)
        elif name == "cat":
            found.append(unknown())
    if found:
        return joined(found), texts
    if paths and not any(path.text in texts for path in paths):
        return state.stdin, texts
    if paths:
        return unknown(), texts
    return state.stdin, texts


def _paths(name: str, argv: Values, operands: list[Value]) -> list[Value]:
    """Return the operands that are files read by the program."""
    if name in ("tr", "tee", "xargs", "envsubst", "perl"):
        return []
    options = [value.text for value in argv[1:]]
    if name in ("sed", "grep", "egrep", "fgrep", "rg", "awk", "gawk", "mawk", "jq", "yq"):
        scripted = any(text in ("-e", "-f", "--expression", "--file") or re.match(r"-[a-z]*e$", text) for text in options)
        return [one for one in operands[0 if scripted else 1 :] if not scripted or options.index(one.text) == 0 or
                options[options.index(one.text) - 1] not in ("-e", "-f", "-n")]  # fmt: skip
    if name == "openssl":
        return [argv[at + 1] for at, value in enumerate(argv[:-1]) if value.text == "-in"]
    if name in ("head", "tail", "cut", "sort", "xxd", "od", "fold", "base64"):
        valued = {"-n", "-c", "-d", "-k", "-t", "-w", "-s", "-l", "-N", "-j", "-b", "-A", "-f" if name == "cut" else ""}
        return [one for at, one in enumerate(argv[1:]) if one in operands and (at == 0 or options[at - 1] not in valued
                or (name in ("base64",) and options[at - 1] == "-d"))]  # fmt: skip
    return operands


def _decodes(name: str, argv: Values) -> bool:
    words = [value.text for value in argv[1:]]
    if name in (
        "base64",
        "base32",
        "basenc",
        "gzip",
        "xz",
        "zstd",
        "bzip2",
        "pigz",
        "lz4",
        "lzma",
        "brotli",
        "gpg",
        "gpg2",
        "age",
    ):
        return any(re.fullmatch(r"-[a-zA-Z]*[dD]\w*|--d(ec\w*)?", word) for word in words)
    if name == "xxd":
        return any(word.startswith("-") and "r" in word for word in words)
    if name == "openssl":
        return any(word in ("-d", "-decrypt") for word in words) or "rsautl" in words or "pkeyutl" in words
    if name == "unzip":
        return any(word.startswith("-p") for word in words)
    return True


def _by_taint(name: str, argv: Values, stdin: Value | None) -> Value:
    taint = stdin.taint if stdin is not None and name not in _SUMMARIES else Taint.NONE
    if name in _REMOTE:
        return unknown(Taint.REMOTE)
    if name in _DECODERS and _decodes(name, argv):
        taint |= Taint.DECODED
    if name == "git" and any(value.text in ("show", "cat-file") for value in argv[1:3]):
        taint |= Taint.LOCAL
    if name in ("printenv", "env", "declare", "export", "set") and len(argv) == 1:
        taint |= Taint.SECRET
    if name in ("python", "python3", "perl", "ruby", "node", "php", "eval", "sh", "bash") and stdin is not None:
        taint |= stdin.taint
    for value in argv[1:]:
        taint |= value.taint & (Taint.REMOTE | Taint.SECRET | Taint.DECODED) if name not in _SUMMARIES else Taint.NONE
    return unknown(taint)


# -- programs that need no input -----------------------------------------------------------------------------------


def _cat(it: Walker, state: State, argv: Values) -> Value:
    value, _ = _input(it, state, "cat", argv)
    plain = all(not one.text.startswith("-") or one.text in ("-", "-u", "--") for one in argv[1:])
    if value is None:
        return unknown()
    return value._replace(shown="") if plain else unknown(value.taint)


def _base64(it: Walker, state: State, argv: Values) -> Value:
    value, _ = _input(it, state, argv[0].text.rpartition("/")[2], argv)
    if value is None:
        return unknown()
    if not _decodes("base64", argv):
        return Value(base64.b64encode(value.text.encode()).decode() + "\n", value.taint) if value.known else unknown(value.taint)
    if not value.known:
        return unknown(value.taint | Taint.DECODED)
    try:
        data = re.sub(r"[^A-Za-z0-9+/]", "", value.text)
        text = base64.b64decode(data + "=" * (-len(data) % 4)).decode()
    except (binascii.Error, ValueError):
        return unknown(value.taint | Taint.DECODED)
    return Value(text, value.taint | Taint.DECODED)


def _xxd(it: Walker, state: State, argv: Values) -> Value:
    value, _ = _input(it, state, "xxd", argv)
    if value is None:
        return unknown()
    words = " ".join(one.text for one in argv[1:] if one.text.startswith("-"))
    if "r" not in words:
        if "p" in words and value.known:
            return Value(value.text.encode().hex() + "\n", value.taint)
        return unknown(value.taint)
    if not value.known:
        return unknown(value.taint | Taint.DECODED)
    text = value.text
    if "p" not in words:
        lines = [re.sub(r"^[0-9a-fA-F]+:", "", line).split("  ")[0] for line in text.split("\n")]
        text = " ".join(lines)
    try:
        decoded = bytes.fromhex(re.sub(r"[^0-9a-fA-F]", "", text)).decode()
    except ValueError:
        return unknown(value.taint | Taint.DECODED)
    return Value(decoded, value.taint | Taint.DECODED)


def _openssl(it: Walker, state: State, argv: Values) -> Value:
    words = {one.text for one in argv[1:]}
    value, _ = _input(it, state, "openssl", argv)
    if "s_client" in words:
        return unknown(Taint.REMOTE)
    if ("base64" in words or "-base64" in words or "-a" in words) and "-d" in words and not any("aes" in one for one in words):
        return _base64(it, state.copy() if value is None else _fed(state, value), [Value("base64"), Value("-d")])
    taint = value.taint if value is not None else Taint.NONE
    return unknown(taint | (Taint.DECODED if _decodes("openssl", argv) else Taint.NONE))


def _fed(state: State, value: Value) -> State:
    child = state.copy()
    child.stdin = value
    return child


def _seq(it: Walker, state: State, argv: Values) -> Value:
    try:
        numbers = [int(one.text) for one in argv[1:]]
    except ValueError:
        return unknown()
    first, step, last = (1, 1, numbers[0]) if len(numbers) == 1 else (numbers[0], 1, numbers[1]) if len(numbers) == 2 else (
        (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else (1, 0, 0)
    )  # fmt: skip
    if step == 0 or abs(last - first) // abs(step) > 1_000:
        return unknown()
    listed = range(first, last + (1 if step > 0 else -1), step)
    return Value("".join(f"{number}\n" for number in listed))


def _operands(argv: Values) -> list[Value]:
    return [value for value in argv[1:] if not value.text.startswith("-") or value.text == "-"]


def _basename(it: Walker, state: State, argv: Values) -> Value:
    given = _operands(argv)
    if not given:
        return EMPTY
    text = given[0].text.rstrip("/").rpartition("/")[2]
    if len(given) > 1 and text.endswith(given[1].text) and text != given[1].text:
        text = text[: len(text) - len(given[1].text)]
    return Value(text + "\n", given[0].taint)


def _dirname(it: Walker, state: State, argv: Values) -> Value:
    given = _operands(argv)
    return Value((posixpath.dirname(given[0].text.rstrip("/")) or ".") + "\n", given[0].taint) if given else EMPTY


def _which(it: Walker, state: State, argv: Values) -> Value:
    given = _operands(argv)
    if argv[0].text == "command" or argv[0].text == "type":
        return joined([tainted(value, Taint.NONE) for value in given[:1]] + [Value("\n")])
    return Value(
        "".join(f"/usr/bin/{value.text}\n" if "/" not in value.text else value.text + "\n" for value in given), Taint.MAYBE
    )


_OF_GIT = names("--git-dir --absolute-git-dir --git-common-dir")


def _git(it: Walker, state: State, argv: Values) -> Value:
    """Return git's output. For ``git rev-parse --git-dir`` it is ``.git``, as git prints in the top folder of a working tree."""
    words = [value.text for value in argv[1:]]
    if words[:1] == ["rev-parse"] and len(words) > 1:
        if words[1] in _OF_GIT:
            return Value(".git\n", Taint.MAYBE)
        if words[1] == "--git-path" and len(words) > 2:
            return Value(f".git/{words[2]}\n", argv[3].taint | Taint.MAYBE)
    return _by_taint("git", argv, state.stdin)


def _nothing(it: Walker, state: State, argv: Values) -> Value:
    return EMPTY


def _pwd(it: Walker, state: State, argv: Values) -> Value:
    return joined([folder(state.cwds), Value("\n")])


def _tee(it: Walker, state: State, argv: Values) -> Value:
    return state.stdin if state.stdin is not None else unknown()


def _realpath(it: Walker, state: State, argv: Values) -> Value:
    given = _operands(argv)
    if len(given) != 1 or given[0].pattern:
        return unknown()
    paths = filestate.absolute(it, state, given[0].text)
    return Value(paths[0] + "\n", given[0].taint | Taint.MAYBE) if len(paths) == 1 and paths[0].startswith("/") else unknown()


_ODD = frozenset(" \t\n*?[\\")
"""Characters that may make an unquoted path several words, or another path."""


def _mktemp(it: Walker, state: State, argv: Values) -> Value:
    reading = read([value.text for value in argv], "mktemp")
    options = {given.name: given.value or "" for given in reading.options}
    start = next((argv[at].text.rstrip("X") for at in reading.operands if "XXX" in argv[at].text), "tmp.")
    at = state.env.get("TMPDIR") or scalar(it, state, "TMPDIR")
    sure = is_maybe_unset(at) or at.known
    folder = options.get("-p") or options.get("--tmpdir") or (at.text if at.known else "/tmp")  # noqa: S108  # it is data
    if reading.operands and options.keys().isdisjoint(("-p", "--tmpdir", "-t")):
        folder, sure = "", True
    text = f"{posixpath.join(folder, start)}{HOLE}"
    made = (
        sure
        and not options.keys().isdisjoint(("-d", "--directory"))
        and options.keys().isdisjoint(("-u", "--dry-run", "--suffix"))
    )
    made = made and argv[0].text in ("mktemp", "/usr/bin/mktemp", "/bin/mktemp") and _ODD.isdisjoint(text)
    return Value(text + "\n", Taint.UNKNOWN | (Taint.MADE if made and not it.context.place else Taint.NONE))


def _environment(it: Walker, state: State, argv: Values) -> Value:
    return unknown(Taint.SECRET) if not _operands(argv) else unknown()


def _rot13(it: Walker, state: State, argv: Values) -> Value:
    value = state.stdin
    return unknown() if value is None else Value(codecs.encode(value.text, "rot13"), value.taint | Taint.DECODED)


_SILENT = "true false : cd mkdir rm rmdir touch chmod chown cp mv ln sleep kill sync export unset shift set local declare alias"

OUTPUTS = {
    "cat": _cat,
    "base64": _base64,
    "xxd": _xxd,
    "openssl": _openssl,
    "seq": _seq,
    "basename": _basename,
    "dirname": _dirname,
    "which": _which,
    "git": _git,
    "pwd": _pwd,
    "tee": _tee,
    "realpath": _realpath,
    "readlink": _realpath,
    "mktemp": _mktemp,
    "printenv": _environment,
    "env": _environment,
    "rot13": _rot13,
    **dict.fromkeys(names(_SILENT), _nothing),
}
