"""The text that bash is fed. Everything is a top-level line: inside a function ``declare`` would make local variables,
inside a loop ``break`` would end the driver.

bash runs as if it read a script from a FIFO, not interactively: ``exit``, ``set -e``, fatal errors and signals end it as they
end any script, and its EXIT trap then says what state it was in, from which a new one goes on. Names that a user may have
redefined are reached through ``\\builtin``; one who redefines that too has a shell that no longer answers, which is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

_SHORT = 1000

FIRST_LINE = b"[[ 1 ]] <&$((LINENO=0))\n"
"""Before each command: error messages count lines from its own first one. An assignment alone would be undone by bash."""

_SECTIONS = (
    (r"\builtin declare -p",),
    (r"\builtin declare -f",),
    (r"\builtin declare -F",),
    (r"\builtin alias -p",),
    (r"\builtin trap -p",),
    (r"\builtin umask -p",),
    (r"\builtin echo $#", r"""\builtin printf '%q ' "$@" """),
)


def quote(text: str) -> str:
    """One word, whatever is in it."""
    return "'" + text.replace("'", "'\\''") + "'"


def report(mark: str, to: str | None = None) -> str:
    """Says the state, section by section, each ended by ``mark``. errexit is over with the command that set it.

    With ``to`` each part is sent there by itself, so that what a DEBUG trap prints in between is not among it.
    """
    end = f" >{to}" if to else ""
    parts = ["\\builtin set +e"]
    for section in _SECTIONS:
        parts += [f"{part}{end}" for part in (*section, f"\\builtin echo {mark}")]
    return ";".join([*parts, f"\\builtin echo {mark} END{end}"])


def arm(inner: str) -> str:
    """The EXIT trap by which an ending shell hands its state over."""
    return f"""\\builtin trap -- '\\builtin eval "$(<{inner}/x)"' EXIT\n"""


def at_exit(inner: str, mark: str) -> str:
    to = f">{inner}/s"
    said = f"\\builtin echo {mark} EXIT {to};\\builtin pwd -P {to};\\builtin echo {mark} {to}"
    return f'\\builtin eval "{said};$(<{inner}/g)" >/dev/null 2>&1'


def start(inner: str, cwd: str, mark: str) -> str:
    """The first lines. What is restored comes from the file ``r``; ``cwd`` must be there, or the shell says so and ends."""
    return (
        f"\\builtin shopt -s expand_aliases\n"
        f"\\builtin cd -P -- {quote(cwd)} || {{ \\builtin echo {mark} NOCD >{inner}/s;\\builtin exit 1; }}\n"
        f'\\builtin eval "$(<{inner}/r)"\n'
        f"\\builtin echo {mark} PID $$ >{inner}/s\n"
    ) + arm(inner)


_PLAIN = re.compile(r"[\w./+:,@%^-][\w./+:=,@%^ -]*")
_BUILTINS = frozenset(
    {
        *(
            ".",
            "alias",
            "bg",
            "bind",
            "break",
            "builtin",
            "caller",
            "cd",
            "command",
            "compgen",
            "complete",
            "compopt",
            "continue",
        ),
        *(
            "coproc",
            "declare",
            "dirs",
            "disown",
            "enable",
            "eval",
            "exec",
            "exit",
            "export",
            "fc",
            "fg",
            "for",
            "function",
            "getopts",
        ),
        *("hash", "help", "history", "if", "in", "jobs", "let", "local", "logout", "mapfile", "popd", "printf", "pushd", "read"),
        *(
            "readarray",
            "readonly",
            "return",
            "select",
            "set",
            "shift",
            "shopt",
            "source",
            "suspend",
            "time",
            "times",
            "trap",
            "type",
        ),
        *(
            "typeset",
            "ulimit",
            "umask",
            "unalias",
            "unset",
            "until",
            "wait",
            "while",
            "case",
            "do",
            "done",
            "then",
            "fi",
            "else",
            "elif",
            "esac",
        ),
    }
)


def changes_nothing(command: str, own: Collection[str]) -> bool:
    """Whether this is one program, or a builtin that leaves the shell as it was: then it need not say its state again.

    ``own`` are the names of its functions and aliases.
    """
    text = command.strip(" \n")
    if len(text) > _SHORT or not _PLAIN.fullmatch(text):
        return False
    first = text.partition(" ")[0]
    return "=" not in first and first not in _BUILTINS and first not in own


def running(inner: str, mark: str) -> str:
    """Says that its input is open."""
    return f"\\builtin echo {mark} RUN >{inner}/s\n"


def run(inner: str, stdin: str) -> str:
    return f'\\builtin eval "$(<{inner}/c)" <{stdin} >{inner}/o 2>{inner}/e'


def run_with(inner: str, stdin: str, cwd: str | None, env: Mapping[str, str]) -> str:
    """For the file ``v``: the same in another folder, or with variables for this command only."""
    there = f"\\builtin cd -P -- {quote(cwd)} && " if cwd is not None else ""
    given = "".join(f"{name}={quote(value)} " for name, value in env.items())
    # Variables that precede `builtin` do not reach what it runs.
    return there + given + run(inner, stdin).replace("builtin ", "", 1)


def indirect(inner: str) -> str:
    """Reads ``v``: what is long must not come through the FIFO, which bash reads byte by byte."""
    return f'\\builtin eval "$(<{inner}/v)"'


def finish(inner: str, nonce: str) -> str:
    """Sent with the command and read only after it: until then nothing that runs can know ``nonce``."""
    return f'\\builtin eval "\\builtin echo;\\builtin echo {nonce} $?;$(<{inner}/f)" >{inner}/s'


def finish_only(inner: str, nonce: str) -> str:
    """The same without the state."""
    return f"\\builtin echo {nonce} $? >{inner}/s"


def finish_apart(inner: str, nonce: str) -> str:
    """The same where a DEBUG trap is set."""
    return f'\\builtin echo {nonce} $? >{inner}/s;\\builtin eval "$(<{inner}/g)"'


def exports(env: Mapping[str, str]) -> str:
    return "".join(f"\\builtin export {name}={quote(value)}\n" for name, value in env.items())


def is_name(name: str) -> bool:
    return name.isascii() and name.isidentifier()
