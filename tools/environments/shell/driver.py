"""The text that bash is fed. Everything is a top-level line: inside a function ``declare`` would make local variables,
inside a loop ``break`` would end the driver.

bash runs as if it read a script from a FIFO, not interactively: ``exit``, ``set -e``, fatal errors and signals end it as they
end any script, and its EXIT trap then says what state it was in, from which a new one goes on. Names that a user may have
redefined are reached through ``\\builtin``; one who redefines that too has a shell that no longer answers, which is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from toolcrib.contract.regex import Regex

_SHORT = 1000
_FAST = 100
"""Most bytes of a command that passes the FIFO: bash reads them, one by one, in the time that a file would take."""

FIRST_LINE = b"[[ 1 ]] <&$((LINENO=0))\n"
"""Line before each command: error messages count lines from its own first one. An assignment alone would be undone by bash."""

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
    """Return the text that reports the state, section by section, each ended by ``mark``. errexit ends with the command that
    set it.

    With ``to`` each part is sent there by itself, so that what a DEBUG trap prints in between is not among it.
    """
    end = f" >{to}" if to else ""
    parts = ["\\builtin set +e"]
    for section in _SECTIONS:
        parts += [f"{part}{end}" for part in (*section, f"\\builtin echo {mark}")]
    return ";".join([*parts, f"\\builtin echo {mark} END{end}"])


def arm(inner: str) -> str:
    """The EXIT trap by which an ending shell hands its state over."""
    return f"\\builtin trap -- '{last_words(inner)}' EXIT\n"


def last_words(inner: str) -> str:
    """Return the command that our EXIT trap runs."""
    return f'\\builtin eval "$(<{inner}/x)"'


def at_exit(inner: str, mark: str) -> str:
    """Return the text that reports the shell's traps, folder and state at its exit.

    No signal may interrupt it: bash would repeat what it had begun to write. A fork that ends before it has become a program
    runs this too.
    """
    to = f">{inner}/s"
    traps = f"\\builtin echo {mark} EXIT {to};\\builtin trap -p {to};\\builtin trap '' INT TERM HUP"
    folder = f"\\builtin echo {mark} {to};\\builtin pwd -P {to};\\builtin echo {mark} {to}"
    told = f'\\builtin eval "{traps};{folder}";\\builtin eval "$(<{inner}/g)"'
    return f"if [[ $BASHPID == $$ ]];then {told};fi >/dev/null 2>&1"


_ROOM = "<&1<&1<&1"
"""Redirections that, together with the one to ``s``, take as many descriptors at once as a command's: where there is no room for
a command's any more (``ulimit -n``), the command before it is not answered, and the shell is replaced. Commands would not run,
and end like one that failed.
"""
FRESH = "\\builtin unset -v OLDPWD;\\builtin declare -x OLDPWD"
"""Makes OLDPWD what it is in a new bash: a shell's first folder is entered from one of ours."""


def start(inner: str, cwd: str, mark: str, *, last: bool = False) -> str:
    """The first lines. What is restored comes from the file ``r``, and from ``t`` if there is a ``last``; ``cwd`` must be there,
    or the shell says so and ends.
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
    """Return the command that sends the driver's reports to ``s`` from then on: a path would be read, and the file opened, each
    time.

    Programs do not inherit the descriptor, because bash keeps it aside while a command runs. A command that may use its
    descriptors for something else is therefore followed by this again, and the report of the state does not rely on it.
    """
    # bash would end where `exec` finds nothing there.
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
    """Return True if the command is one program, or a builtin that leaves the shell as it was: its state is not reported
    again.

    ``own`` are the names of the shell's functions and aliases.
    """
    text = command.strip(" \n")
    if len(text) > _SHORT or not _PLAIN.fullmatch(text):
        return False
    first = text.partition(" ")[0]
    return "=" not in first and first not in _BUILTINS and first not in own


def may_trap(command: str) -> bool:
    """Return True if the command may set a trap, as far as its text shows."""
    return bool(re.search(r"\btrap\b|\bsource\b|\beval\b|(?:^|[\s;&|({])\.\s", command))


def running(inner: str, mark: str) -> str:
    """Return the text by which the shell reports that its input is open."""
    return f"\\builtin echo {mark} RUN >{inner}/s\n"


def waiting(inner: str) -> str:
    """Return a command's line without the command: it is sent before, and bash, which reads a FIFO byte by byte, has it already
    when the command comes.
    """
    return f"{FIRST_LINE.decode()}>{inner}/o 2>{inner}/e \\builtin eval '"


def run(command: bytes) -> bytes | None:
    """The rest of that line. None where the command is to be written to the file ``c`` first: then it is ``run_long``."""
    if len(command) > _FAST or not (command.isascii() and command.decode("ascii").isprintable()):
        return None
    return command.replace(b"'", b"'\\''") + b"'"


def run_long(inner: str) -> bytes:
    """Return the argument that reads a command from its file: long text must not pass the FIFO, and bash may misread
    undecodable text.
    """
    return f'\'"$(<{inner}/c)"'.encode()


def with_input(inner: str) -> bytes:
    """Return the redirection after a command with input; without it a command has the shell's, which is empty unless somebody
    changed it.
    """
    return f" <{inner}/i".encode()


def run_with(inner: str, cwd: str | None, env: Mapping[str, str]) -> str:
    """Return the text that runs the file ``v`` in another folder, or with variables for this command only."""
    there = f"\\builtin cd -P -- {quote(cwd)} && " if cwd is not None else ""
    given = "".join(f"{name}={quote(value)} " for name, value in env.items())
    # Variables that precede `builtin` do not reach what it runs.
    return f'{there}{given}eval "$(<{inner}/v)"'


def finish(inner: str, nonce: str) -> str:
    """Return the text that ends a command. The shell reads it only after the command: until then nothing that runs knows
    ``nonce``.
    """
    return f'\\builtin eval "\\builtin echo;\\builtin echo {nonce} $? {_ROOM};$(<{inner}/f)" >{inner}/s'


def finish_only(nonce: str) -> str:
    """Return the text that ends a command which changes nothing: its exit code without the shell's state."""
    return f"\\builtin echo {nonce} $?"


def finish_apart(inner: str, nonce: str) -> str:
    """Return the text that ends a command where a DEBUG trap is set."""
    return f"\\builtin echo {nonce} $? >{inner}/s{_ROOM};{tell_apart(inner)}"


def tell_apart(inner: str) -> str:
    """The state, without what a DEBUG trap prints meanwhile."""
    return f'\\builtin eval "$(<{inner}/g)" >/dev/null'


def exports(env: Mapping[str, str]) -> str:
    """Return the text that exports these variables."""
    return "".join(f"\\builtin export {name}={quote(value)}\n" for name, value in env.items())


def is_name(name: str) -> bool:
    """Return True for a name that bash takes for a variable."""
    return name.isascii() and name.isidentifier()
