"""The text that bash reads. Every line is at top level: in a function ``declare`` would make local variables, and in a loop
``break`` would end the driver.

Bash runs as if it read a script from a FIFO, not interactively. ``exit``, ``set -e``, fatal errors and signals end it as they end
any script; its EXIT trap then reports its state for a new shell. Names that a user may have redefined are
called through ``\\builtin``. If a command redefines that too, the shell no longer answers, which is detected.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from toolcrib.contract.regex import Regex

_SHORT = 1000
_FAST = 100
"""Maximum bytes of a command sent through the FIFO. Bash reads it byte by byte; a longer one is faster from a file."""

FIRST_LINE = b"[[ 1 ]] <&$((LINENO=0))\n"
"""Line before each command, so that error messages count from its own first line. Bash would undo a plain assignment."""

_SECTIONS = (
    (r"\builtin declare -p",),
    (r"\builtin declare -f",),
    (r"\builtin declare -F",),
    (r"\builtin alias -p",),
    (r"\builtin trap -p",),
    (r"\builtin umask -p",),
    (r"\builtin echo $#", r"""\builtin printf '%q ' "$@" """),
    (r"""\builtin printf '%q ' "${DIRSTACK[@]}" """,),
)


def quote(text: str) -> str:
    """Quote any text as one word for bash."""
    return "'" + text.replace("'", "'\\''") + "'"


def report(mark: str, to: str | None = None) -> str:
    """Return the text that reports the state, section by section, each ended by ``mark``. It also switches errexit off.

    With ``to`` each part is redirected there on its own, so that the output of a DEBUG trap in between is not part of it.
    """
    end = f" >{to}" if to else ""
    parts = ["\\builtin set +e"]
    for section in _SECTIONS:
        parts += [f"{part}{end}" for part in (*section, f"\\builtin echo {mark}")]
    return ";".join([*parts, f"\\builtin echo {mark} END{end}"])


def arm(inner: str) -> str:
    """Return the EXIT trap that reports the state of an ending shell."""
    return f"\\builtin trap -- '{last_words(inner)}' EXIT\n"


def last_words(inner: str) -> str:
    """Return the command of toolcrib's EXIT trap."""
    return f'\\builtin eval "$(<{inner}/x)"'


def at_exit(inner: str, mark: str) -> str:
    """Return the text that reports the shell's traps, folder and state when it exits.

    No signal may interrupt it, because bash would repeat a partial write. A fork that ends before it executes a program
    runs this text too.
    """
    to = f">{inner}/s"
    traps = f"\\builtin echo {mark} EXIT {to};\\builtin trap -p {to};\\builtin trap '' INT TERM HUP"
    folder = f"\\builtin echo {mark} {to};\\builtin pwd -P {to};\\builtin echo {mark} {to}"
    told = f'\\builtin eval "{traps};{folder}";\\builtin eval "$(<{inner}/g)"'
    return f"if [[ $BASHPID == $$ ]];then {told};fi >/dev/null 2>&1"


_ROOM = "<&1<&1<&1"
"""Redirections that, with the one to ``s``, need as many descriptors as the redirections of a command.

If a command has lowered the limit of open files (``ulimit -n``) too far for them, its end is not reported and the shell is
replaced. Otherwise later commands would not run, and would look like failed ones.
"""
FRESH = "\\builtin unset -v OLDPWD;\\builtin declare -x OLDPWD"
"""Gives OLDPWD the value that it has in a new bash, although the shell enters its first folder from another one."""


def start(inner: str, cwd: str, mark: str, *, last: bool = False) -> str:
    """Return the first lines. The state is restored from the file ``r``; if ``last``, an EXIT trap is set from ``t``.

    If ``cwd`` does not exist, the shell reports that and ends.
    """
    return (
        f"{speak(inner)}\n"
        f"\\builtin shopt -s expand_aliases\n"
        f"\\builtin cd -P -- {quote(cwd)} || {{ \\builtin echo {mark} NOCD;\\builtin exit 1; }}\n"
        f"{FRESH}\n"
        f'\\builtin eval "$(<{inner}/r)"\n'
        f"{arm(inner)}" + (f'\\builtin eval "$(<{inner}/t)"\n' if last else "") + f"\\builtin echo {mark} PID $$\n"
    )


def speak(inner: str) -> str:
    """Return the command that opens ``s`` for the driver's reports, so that no path is read and opened for each.

    Programs do not inherit the descriptor, because bash moves it aside while a command runs. After a command that may have
    redirected the shell itself, this is sent again, and the report of the state does not rely on it.
    """
    # bash would end if ``exec`` found no file.
    return f"[[ -p {inner}/s ]] && \\exec >{inner}/s"


_PLAIN = Regex(r"[\w./+:,@%^-][\w./+:=,@%^ -]*")
_KEYWORDS = """
. alias bind break builtin caller cd command compgen complete compopt continue coproc declare dirs disown enable eval exec exit
export fc fg bg for function getopts hash help history if in jobs let local logout mapfile popd printf pushd read readarray
readonly return select set shift shopt source suspend time times trap type typeset ulimit umask unalias unset until wait while
case do done then fi else elif esac
"""
_BUILTINS = frozenset(_KEYWORDS.split())
"""Words that may change the shell that reads them, or that begin more than one command."""


def changes_nothing(command: str, own: Collection[str]) -> bool:
    """Return True if the command is one program, or a builtin, that leaves the shell's state unchanged.

    ``own`` are the names of the shell's functions and aliases.
    """
    text = command.strip(" \n")
    if len(text) > _SHORT or not _PLAIN.fullmatch(text):
        return False
    first = text.partition(" ")[0]
    return "=" not in first and first not in _BUILTINS and first not in own


def may_trap(command: str) -> bool:
    """Return True if the text of the command shows that it may set a trap."""
    return bool(re.search(r"\btrap\b|\bsource\b|\beval\b|(?:^|[\s;&|({])\.\s", command))


def running(inner: str, mark: str) -> str:
    """Return the text that reports that the shell's input is open."""
    return f"\\builtin echo {mark} RUN >{inner}/s\n"


def waiting(inner: str) -> str:
    """Return a command's line without the command. It is sent ahead, because bash reads a FIFO byte by byte."""
    return f"{FIRST_LINE.decode()}>{inner}/o 2>{inner}/e \\builtin eval '"


def run(command: bytes) -> bytes | None:
    """Return the rest of the line from ``waiting``; None if the command must be written to the file ``c`` for ``run_long``."""
    if len(command) > _FAST or not (command.isascii() and command.decode("ascii").isprintable()):
        return None
    return command.replace(b"'", b"'\\''") + b"'"


def run_long(inner: str) -> bytes:
    """Return the argument that reads a command from its file, for long text, and for undecodable text that bash may misread."""
    return f'\'"$(<{inner}/c)"'.encode()


def with_input(inner: str) -> bytes:
    """Return the redirection of a command's input. Without it, a command reads the shell's input, which is normally empty."""
    return f" <{inner}/i".encode()


def run_with(inner: str, cwd: str | None, env: Mapping[str, str]) -> str:
    """Return the text that runs the file ``v`` in another folder, or with variables for this command only."""
    there = f"\\builtin cd -P -- {quote(cwd)} && " if cwd is not None else ""
    given = "".join(f"{name}={quote(value)} " for name, value in env.items())
    # Variables before ``builtin`` do not reach the command that it runs.
    return f'{there}{given}eval "$(<{inner}/v)"'


def finish(inner: str, nonce: str) -> str:
    """Return the text that ends a command. The shell reads it only after the command, which therefore cannot know ``nonce``."""
    return f'\\builtin eval "\\builtin echo;\\builtin echo {nonce} $? {_ROOM};$(<{inner}/f)" >{inner}/s'


def finish_only(nonce: str) -> str:
    """Return the text that ends a command that changes nothing: its exit code without the shell's state."""
    return f"\\builtin echo {nonce} $?"


def finish_apart(inner: str, nonce: str) -> str:
    """Return the text that ends a command if a DEBUG trap is set."""
    return f"\\builtin echo {nonce} $? >{inner}/s{_ROOM};{tell_apart(inner)}"


def tell_apart(inner: str) -> str:
    """Return the text that reports the state without the output of a DEBUG trap."""
    return f'\\builtin eval "$(<{inner}/g)" >/dev/null'


def exports(env: Mapping[str, str]) -> str:
    """Return the text that exports these variables."""
    return "".join(f"\\builtin export {name}={quote(value)}\n" for name, value in env.items())


def is_name(name: str) -> bool:
    """Return True for a name that bash accepts as a variable."""
    return name.isascii() and name.isidentifier()
