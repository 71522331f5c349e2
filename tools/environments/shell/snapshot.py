"""Snapshot of a shell's state: gates read it, and another shell restores it by running a text made from it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from toolcrib.contract.effects import ShellState
from tools.environments.shell import driver

V = TypeVar("V")

SHELL_ENDED = (
    "the shell ended before it received the command (if its own DEBUG, ERR or RETURN trap caused that, the trap is removed now)"
)

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_ANSI = r"\$'(?:[^'\\]|\\.)*'"
_PLAIN = r"'[^']*'"
_ARRAY = rf'\((?:[^"\'()\\$]|\\.|{_QUOTED}|{_ANSI}|{_PLAIN}|\$|\((?=\)))*\)'
_DECLARED = rf"^declare (-\S+) (\w+)(?:=({_QUOTED}|{_ANSI}|{_ARRAY}|[^\n]*))?$"
_ALIAS = rf"^alias (?:-- )?([^=\n]+)=((?:{_PLAIN}|\\'|{_ANSI})+)$"
_ELEMENT = rf"\[({_QUOTED}|{_ANSI}|[^\]\"]*)\]=({_QUOTED}|{_ANSI})"
_TRAP = rf"^trap -- ((?:{_PLAIN}|\\'|{_ANSI})*) (\S+)$"
_FUNCTION = r"^(?:function )?(\S+) \(\) ?\n(?=\{)"
_OWN = frozenset(
    {
        *("BASH", "BASHOPTS", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND"),
        *("BASH_EXECUTION_STRING", "BASH_LINENO", "BASH_MONOSECONDS", "BASH_SOURCE", "BASH_SUBSHELL", "BASH_TRAPSIG"),
        *("BASH_VERSINFO", "BASH_VERSION", "COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME", "EPOCHSECONDS", "EUID", "FUNCNAME"),
        *("GROUPS", "HISTCMD", "LINENO", "PIPESTATUS", "PPID", "PWD", "RANDOM", "SECONDS", "SHELLOPTS", "SRANDOM", "UID", "_"),
    }
)
"""Variables that every bash sets itself."""
_NEVER = frozenset({"errexit", "noexec", "onecmd", "interactive-comments", "privileged", "history", "histexpand"})
_FIXED = frozenset({"login_shell", "restricted_shell"})
_ESCAPED = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.MULTILINE | re.DOTALL)


class ShellSnapshot:
    """A report of a shell. ``sections`` are its parts as text, with undecodable bytes kept (surrogateescape).

    ``own`` is the text of toolcrib's EXIT trap, which is not the user's.
    """

    def __init__(self, sections: list[str], own: str = "") -> None:
        self.sections = sections
        self.own = own
        variables, self._functions, self._exported, self._aliases, self._traps, self._umask, positional, folders = sections
        self._variables = variables
        self._positional = positional
        self._folders = folders

    @classmethod
    def read(cls, data: bytes, mark: bytes, inner: str, traps: str | None = None) -> ShellSnapshot | None:
        """Parse a snapshot. Return None if it is incomplete. ``inner``: the shell's folder. ``traps``: the traps that were
        reported before it.
        """
        parts = data.decode("utf-8", "surrogateescape").split(f"{mark.decode()}\n")
        if len(parts) != 9:
            return None
        return cls([*parts[:4], parts[4] if traps is None else traps, *parts[5:8]], driver.last_words(inner))

    @property
    def is_sound(self) -> bool:
        """True if the text shows no foreign output between the parts. A trap may print before the first part."""
        return (
            _pattern(rf"(?:{_ALIAS}\n)*").fullmatch(self._aliases) is not None
            and _pattern(rf"(?:{_TRAP}\n|trap -- - \S+\n)*").fullmatch(self._traps) is not None
            and all(line.startswith("declare -f") for line in self._exported.splitlines())
            and (not self._functions or _pattern(_FUNCTION).match(self._functions) is not None)
            and all("<<" in text or text.rpartition("\n")[2].startswith(("}", "declare -f")) for text in self._bodies().values())
            and re.fullmatch(r"umask [0-7]+\n", self._umask) is not None
            and re.fullmatch(r"\d+\n.*", self._positional) is not None
            and "\n" not in self._folders
        )

    @property
    def has_debug_trap(self) -> bool:
        """True if a DEBUG trap is set."""
        return bool(re.search(r" DEBUG$", self._traps, re.MULTILINE))

    @property
    def mentions_traps(self) -> bool:
        """True if an interrupt may make the shell run something."""
        return "trap " in self._functions or bool(re.search(r" SIGINT$", self._traps, re.MULTILINE))

    @property
    def has_exit_trap(self) -> bool:
        """True if an EXIT trap is set."""
        return bool(re.search(r" EXIT$", self._traps, re.MULTILINE))

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The names of the shell's functions and aliases."""
        functions = (line.rpartition(" ")[2] for line in self._exported.splitlines())
        return frozenset({*functions, *(name for name, _ in _pattern(_ALIAS).findall(self._aliases))})

    @functools.cached_property
    def is_trapped(self) -> bool:
        """True if commands run other commands: a DEBUG, ERR or RETURN trap is set."""
        return bool(re.search(r" (DEBUG|ERR|RETURN)$", self._traps, re.MULTILINE))

    def untrapped(self) -> ShellSnapshot:
        """Return the snapshot without DEBUG, ERR and RETURN traps, which may keep a new shell from ever starting."""
        kept = [each for each in _each_trap(self._traps) if not _is_beside(each)]
        return ShellSnapshot([*self.sections[:4], "".join(kept), *self.sections[5:]], self.own)

    # -- for gates -----------------------------------------------------------------------------------------------

    def state(self) -> ShellState:
        """Return the state. Its parts are parsed when first read."""
        return ShellState(
            variables=_Lazy(self._values),
            aliases=_Lazy(lambda: {name: _unquoted(value) for name, value in _pattern(_ALIAS).findall(self._aliases)}),
            functions=_Lazy(self._bodies),
            positional=tuple(self._arguments()),
            aliases_on="expand_aliases" in self._list("BASHOPTS"),
            attributes=_Lazy(self._attributes),
            arrays=_Lazy(self._arrays),
            traps=_Lazy(self._handlers),
        )

    def _values(self) -> dict[str, str]:
        return {name: _scalar(value) for _, name, value in self._declared() if value}

    def _handlers(self) -> dict[str, str]:
        told = {name: _unquoted(text) for text, name in _pattern(_TRAP).findall(self._traps)}
        return {name: text for name, text in told.items() if text != self.own}

    def _attributes(self) -> dict[str, str]:
        told = ((name, flags.strip("-")) for flags, name, value in self._declared() if _is_theirs(name, value))
        return {name: flags for name, flags in told if flags and name != "OPTIND"}

    def _arrays(self) -> dict[str, Mapping[str, str]]:
        return {
            name: {_unquoted(key): _unquoted(each) for key, each in _pattern(_ELEMENT).findall(value)}
            for _, name, value in self._declared()
            if value.startswith("(") and _is_theirs(name, value)
        }

    def _bodies(self) -> dict[str, str]:
        # Each definition begins with a line ``name () ``. In a body such lines are indented or part of a string. A here-document
        # with such a line only splits its function in two, which adds a name but loses none.
        starts = list(_pattern(_FUNCTION).finditer(self._functions))
        ends = [*(match.start() for match in starts[1:]), len(self._functions)][: len(starts)]
        return {match[1]: self._functions[match.start() : end].rstrip("\n") for match, end in zip(starts, ends, strict=True)}

    def _arguments(self) -> Iterator[str]:
        count, _, words = self._positional.partition("\n")
        if count.strip() not in ("", "0"):
            yield from (_unquoted(word) for word in re.findall(rf"(?:{_ANSI}|\\.|''|[^\s\\])+", words, re.DOTALL))

    def _pushed(self) -> list[str]:
        """Return the folders on the stack below the working folder, as words. Bash writes ``~`` for HOME; all others are
        absolute.
        """
        words = re.findall(rf"(?:{_ANSI}|\\.|[^\s\\])+", self._folders, re.DOTALL)[1:]
        return [word[1:] if word.startswith("\\~") else word for word in words]

    def _declared(self) -> list[tuple[str, str, str]]:
        return _pattern(_DECLARED).findall(self._variables)

    def _list(self, name: str) -> list[str]:
        found = re.search(rf'^declare -\S+ {name}="([^"]*)"$', self._variables, re.MULTILINE)
        return found[1].split(":") if found else []

    # -- for another shell ---------------------------------------------------------------------------------------

    @property
    def exit_trap(self) -> str:
        """Shell text that sets the user's EXIT trap again; "" if there is none."""
        found = [trap for trap in _each_trap(self._traps) if trap.rstrip("\n").endswith(" EXIT")]
        return f"\\builtin {found[0]}" if found and "EXIT" in self._handlers() else ""

    def restore(self) -> str:
        """Return shell text that restores the state.

        Options that change how text is read come first, options that change what runs come last. EXIT traps belong to the shell
        that set them: see ``exit_trap``.
        """
        turned_on = [name for name in self._list("BASHOPTS") if name not in _FIXED]
        lines = [
            "IFS=\" \"; \\builtin shopt -u ${BASHOPTS//:/ }; IFS=$' \\t\\n'",
            "\\builtin shopt -u expand_aliases",
            *([f"\\builtin shopt -s {' '.join(each for each in turned_on if each != 'expand_aliases')}"] if turned_on else []),
            # Only a bare ``declare`` can set arrays, so these lines precede the functions, which may include one of that name.
            *(match[0] for match in _pattern(_DECLARED).finditer(self._variables) if _is_theirs(match[2], match[3])),
            self._functions,
            *(f"\\builtin {line}" for line in self._exported.splitlines() if not line.startswith("declare -f ")),
        ]
        lines += [f"\\builtin {line}" if line.startswith("alias ") else line for line in self._aliases.split("\n")]
        lines.append(f"\\builtin {self._umask.strip()}")
        count, _, words = self._positional.partition("\n")
        if count.strip() not in ("", "0"):
            lines.append(f"\\builtin set -- {words.strip()}")
        lines += [f"\\builtin pushd -n -- {word} >/dev/null" for word in reversed(self._pushed())]
        if "expand_aliases" in turned_on:
            lines.append("\\builtin shopt -s expand_aliases")
        lines += self._set_options()
        lines.append(_without_exit(self._traps))
        return "\n".join(lines) + "\n"

    def _set_options(self) -> list[str]:
        on = set(self._list("SHELLOPTS"))
        lines = [f"\\builtin set +o {name}" for name in ("braceexpand", "hashall") if name not in on]
        wanted = sorted(on - _NEVER - {"braceexpand", "hashall"}, key=lambda name: (name in ("xtrace", "posix"), name))
        return [*lines, *(f"\\builtin set -o {name}" for name in wanted)]


def first_state(variables: Mapping[str, str]) -> ShellState:
    """Return the state of a shell that has run nothing, with these variables in its environment."""
    return ShellState(variables=dict(variables), aliases_on=True, attributes=dict.fromkeys(variables, "x"))


def leaves_all(now: ShellSnapshot | None, command: str) -> bool:
    """Return True if the command changes nothing that a snapshot shows."""
    if now is None:
        return driver.changes_nothing(command, ())
    return not now.is_trapped and driver.changes_nothing(command, now.names)


def with_status(now: ShellSnapshot | None, status: int, command: str) -> str:
    """Return the command with ``$?`` set to the last exit code, which toolcrib's own commands in between have changed."""
    if not status or not ("$?" in command or "${?" in command) or (now is not None and now.is_trapped):
        return command
    return f"(\\builtin exit {status}); {command}"


class _Lazy(Mapping[str, V]):
    def __init__(self, make: Callable[[], dict[str, V]]) -> None:
        self._make = make
        self._made: dict[str, V] | None = None

    @property
    def _all(self) -> dict[str, V]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, name: str) -> V:
        return self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and self._all == dict(other)

    __hash__ = None  # type: ignore[assignment]  # like any mapping that compares by value

    def __repr__(self) -> str:
        return repr(self._all)

    def __reduce__(self) -> tuple[type, tuple[dict[str, V]]]:
        return dict, (self._all,)


def _is_theirs(name: str, value: str | None) -> bool:
    return name not in _OWN and (name != "OLDPWD" or value is not None)


def _each_trap(traps: str) -> list[str]:
    return [trap for trap in re.split(r"^(?=trap -- )", traps, flags=re.MULTILINE) if trap.startswith("trap -- ")]


def _is_beside(trap: str) -> bool:
    return trap.rstrip("\n").endswith((" DEBUG", " ERR", " RETURN"))


def _without_exit(traps: str) -> str:
    kept = _each_trap(traps)
    last = [trap for trap in kept if _is_beside(trap)]
    first = [trap for trap in kept if trap not in last and not trap.rstrip("\n").endswith(" EXIT")]
    return "".join(f"\\builtin {trap}" for trap in [*first, *last])


def _scalar(value: str) -> str:
    """Return the value of ``$name``; for an array, that of element 0."""
    if not value.startswith("("):
        return _unquoted(value)
    found = re.match(rf"\(\[0\]=({_QUOTED}|{_ANSI})", value, re.DOTALL)
    return _unquoted(found[1]) if found else ""


def _unquoted(word: str) -> str:
    return re.sub(
        rf"({_QUOTED})|({_ANSI})|({_PLAIN})|\\(.)", lambda part: _part(part[1], part[2], part[3], part[4]), word, flags=re.DOTALL
    )


def _part(double: str | None, ansi: str | None, single: str | None, escaped: str | None) -> str:
    if double is not None:
        return re.sub(r'\\([\\"$`])', r"\1", double[1:-1])
    if ansi is not None:
        return _unescaped(ansi[2:-1])
    return single[1:-1] if single is not None else escaped or ""


def _unescaped(text: str) -> str:
    data = re.sub(
        r"\\([0-7]{1,3})|\\(.)",
        lambda part: (
            chr(int(part[1], 8))
            if part[1] and int(part[1], 8) < 128
            else _byte(int(part[1], 8))
            if part[1]
            else _ESCAPED.get(part[2], part[2])
        ),
        text,
        flags=re.DOTALL,
    )
    return data.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _byte(value: int) -> str:
    return bytes([value & 0xFF]).decode("utf-8", "surrogateescape")
