"""Launchers that give a command another view of the files (bwrap), and helpers that a program starts through PATH."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, owned, preset
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Value, names
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import Inner, words_of

Values = Sequence[Value]

# -- bwrap ------------------------------------------------------------------------------------------------------------

_BINDS = names("--bind --bind-try --dev-bind --dev-bind-try --ro-bind --ro-bind-try")
_TWO_AFTER = _BINDS | names("--symlink --setenv --file --bind-data --ro-bind-data --chmod --bind-fd --ro-bind-fd --overlay")
_ONE_AFTER = names(
    "--args --chdir --unsetenv --lock-file --sync-fd --remount-ro --overlay-src --tmp-overlay --ro-overlay --proc --dev --tmpfs"
    " --mqueue --dir --seccomp --add-seccomp-fd --exec-label --file-label --block-fd --userns-block-fd --info-fd"
    " --json-status-fd --cap-add --cap-drop --uid --gid --hostname --userns --userns2 --pidns --perms --size --argv0"
)


def _read(argv: Values) -> tuple[list[tuple[str, Value]], Value | None, list[Value]]:
    """Return the folders bound under another name, the start folder, and the command."""
    at, binds, cwd = 1, list[tuple[str, Value]](), None
    while at < len(argv) and argv[at].text[:1] == "-":
        option = argv[at].text
        if option == "--":
            at += 1
            break
        if option in _BINDS and at + 2 < len(argv) and argv[at + 1].text.rstrip("/") != argv[at + 2].text.rstrip("/"):
            binds.append((posixpath.normpath(argv[at + 2].text), argv[at + 1]))
        if option == "--chdir" and at + 1 < len(argv):
            cwd = argv[at + 1]
        at += 3 if option in _TWO_AFTER else 2 if option in _ONE_AFTER else 1
    return binds, cwd, list(argv[at:])


def _bwrap(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command as if all paths were the same as outside."""
    _, cwd, command = _read(argv)
    return [Inner(argv=command, cwd=cwd)] if command else []


def _bound(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return the command with the folders that have another name in the sandbox than outside; [] if there are none."""
    binds, cwd, command = _read(argv)
    if not binds or not command:
        return []
    binds = [(one, source) for to, source in binds for one in filestate.absolute(it, state, to)]
    cwd = cwd or (Value(state.cwds[0]) if state.cwds else None)
    return [Inner(argv=command, cwd=cwd, mounts=[("/", Value("/")), *binds], own=True)]


# -- setarch ----------------------------------------------------------------------------------------------------------

_MACHINE = Regex(
    r"linux(?:32|64)|uname26|i[3-6]86|x86_64|athlon|arm\w*|aarch64|ppc\w*|s390x?|mips\w*|sparc\w*|alpha|ia64|riscv\d*|parisc\w*"
)


def _setarch(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``setarch [MACHINE] [OPTIONS] COMMAND``."""
    rest = list(argv[1:])
    if rest and (_MACHINE.fullmatch(rest[0].text) or HOLE in rest[0].text):
        rest = rest[1:]
    while rest and rest[0].text[:1] == "-":
        rest = rest[1:]
    return [Inner(argv=rest)] if rest else []


# -- script and ed ----------------------------------------------------------------------------------------------------

_SCRIPT_COMMAND = Regex(r"-[a-zA-Z]*c|--command(?:=.*)?|-c.*")


def _script(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the input of ``script`` if no command is given: its shell reads the input."""
    if stdin is None or any(map(_SCRIPT_COMMAND.fullmatch, (value.text for value in argv[1:]))):
        return []
    return [Inner(text=stdin, own=True)]


def _own_shell(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return the shell in SHELL, if it is one of the session's own files."""
    named = preset.given(it, state, ["SHELL"])
    return [Inner(argv=[one], own=True) for one in named if owned.content(it, state, one.text) is not None]


_ED_RUNS = Regex(r"^[\d,.$%;]*(?:[rwe]\s*)?!(.+)$", re.MULTILINE)


def _ed(argv: Values, stdin: Value | None) -> list[Inner]:
    """Return the command of ``ed '!COMMAND'``, and the lines of its input that run one."""
    if not any(value.text[:1] == "!" for value in argv[1:]):
        return []  # ed edits a file: its input is code, which ``interpreters`` finds
    found = [value._replace(text=value.text[1:], shown="") for value in argv[1:] if value.text[:1] == "!"]
    found += [Value(match[1], stdin.taint) for match in _ED_RUNS.finditer(stdin.text)] if stdin is not None else []
    return [Inner(text=text, own=True) for text in found]


# -- helpers ----------------------------------------------------------------------------------------------------------

_COMPILER = "as ld ld.* collect2 cc1 cc1plus cc1obj lto1 lto-wrapper gold mold"
_HELPERS = {
    **dict.fromkeys(names("gcc g++ cc c++ clang clang++ gfortran rustc go tcc"), f"{_COMPILER} gcc cc clang pkg-config"),
    **dict.fromkeys(names("make gmake ninja cmake meson"), f"{_COMPILER} gcc g++ cc c++ clang clang++ ar ranlib pkg-config"),
    "git": "git-* ssh gpg gpg2 less vi editor curl",
    **dict.fromkeys(names("scp sftp rsync"), "ssh"),
    **dict.fromkeys(names("tar gtar bsdtar"), "gzip bzip2 xz zstd lzip lzma lzop compress"),
    "cargo": f"cargo-* rustc rustdoc {_COMPILER} cc gcc",
    **dict.fromkeys(names("man less"), "less more groff troff nroff preconv tbl lesspipe col"),
    **dict.fromkeys(names("npm npx yarn pnpm"), "node sh git"),
    **dict.fromkeys(names("pip pip3 uv"), "git gcc cc"),
    **dict.fromkeys(names("docker podman"), "docker-* podman-*"),
    "kubectl": "kubectl-*",
    "gpg": "gpg-agent pinentry* dirmngr",
    "gdb": "gdbserver debuginfod*",
}
"""For each program, patterns for the names of the programs that it finds on PATH and starts."""

_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/opt/", "/nix/")


def helpers(it: Walker, state: State, name: str, path: str) -> Iterator[str]:
    """Yield the session's own files in folders of PATH that the program ``name`` would start itself."""
    wanted = _HELPERS.get(name, "").split()
    for entry in path.split(":") if wanted else ():
        for folder in filestate.absolute(it, state, entry or "."):
            if folder[:1] == "/" and not folder.startswith(_SYSTEM):
                yield from _in(it, state, f"{folder}/", wanted)


def _in(it: Walker, state: State, start: str, wanted: Sequence[str]) -> Iterator[str]:
    """Yield the session's own files whose path is ``start`` plus one of the wanted names."""
    for file in owned.below(it, state, posixpath.dirname(start), "", deep=False):
        if file.startswith(start) and any(fnmatch.fnmatchcase(file[len(start) :], one) for one in wanted):
            yield file


def _compiler(it: Walker, state: State, argv: Values) -> list[Inner]:
    """Return the session's own files that ``gcc -B PREFIX`` would start as parts of the compiler."""
    words = [value.text for value in argv]
    given = [words[at + 1] if word == "-B" else word[2:] for at, word in enumerate(words[:-1], 0) if word[:2] == "-B"]
    given += [words[-1][2:]] if words[-1][:2] == "-B" else []
    given += [folder for one in preset.given(it, state, ["COMPILER_PATH", "GCC_EXEC_PREFIX"]) for folder in one.text.split(":")]
    wanted = _COMPILER.split()
    starts = dict.fromkeys(
        start for one in given if one for path in filestate.absolute(it, state, one.rstrip("/")) for start in (path, f"{path}/")
    )
    return [Inner(argv=[Value(file)], own=True) for start in starts for file in _in(it, state, start, wanted)]


_READS_WORDS = names("gcc g++ cc c++ clang clang++ gfortran ld ld.gold ld.lld gold as ar ranlib nm javac java rustc")


def expanded(it: Walker, state: State, name: str, argv: Values) -> Values:
    """Return ``argv`` with each ``@FILE`` replaced by the words in that file, as compilers do."""
    if name not in _READS_WORDS or not any(value.text[:1] == "@" for value in argv):
        return argv
    found: list[Value] = []
    for value in argv:
        text = filestate.content(it, state, value._replace(text=value.text[1:])) if value.text[:1] == "@" else None
        found += [value] if text is None else [Value(word, text.taint) for word in words_of(text.text)]
    return found


SPECIALS = {"bwrap": _bwrap, "setarch": _setarch, "script": _script, "ed": _ed, "red": _ed}
RECIPES = {
    "bwrap": _bound,
    "script": _own_shell,
    **dict.fromkeys(names("gcc g++ cc c++ clang clang++ gfortran"), _compiler),
}
