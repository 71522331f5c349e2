"""Find everything in one shell command that a user may want to be asked about.

shell/ parses the text, meaning/ resolves what it would execute, and assess.py applies the rules. Unreadable parts are findings
too. Nothing is ever run, and files are only read through the given snapshot.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.effects import ShellState
from tools.judge.assess import assess
from tools.judge.budget import Budget
from tools.judge.characters import unseen
from tools.judge.file_view import Looks
from tools.judge.findings import MAX_COMMAND_CHARS, Finding, visible
from tools.judge.installed import Ours
from tools.judge.meaning import interpret
from tools.judge.meaning.act import Act
from tools.judge.meaning.state import NoFiles, ShellNow, Snapshot, knows_temporary
from tools.judge.meaning.value import HOLE, Taint, Value
from tools.judge.patterns import added
from tools.judge.plain import simple_argv
from tools.judge.rules import filed
from tools.judge.setting import Setting, person_home


@dataclass(frozen=True, slots=True)
class Examined:
    """The examination of a command. ``commands``: every simple command in it, resolved, with ``…`` for unknown parts.

    ``files``: the tainted files that it leaves, by path; ``copies``: the files that it copies, moves or writes (see Meaning).
    ``looked_at``: scripts that were read to judge it.
    """

    findings: Sequence[Finding]
    commands: Sequence[tuple[str, ...]] = ()
    files: Mapping[str, Taint] = field(default_factory=dict)
    copies: Mapping[str, str] = field(default_factory=dict)
    looked_at: Sequence[str] = ()
    made: Mapping[str, str] | None = None
    """Variables of the session's shell that hold the output of ``mktemp -d`` (see Meaning); None if they are unchanged."""
    rewrites: Sequence[tuple[str, Taint]] = ()
    """See Meaning."""
    acts: Sequence[Act] = ()


def examine(
    command: str,
    cwd: str,
    shell: ShellState | None,
    files: Snapshot,
    setting: Setting,
    *,
    stdin: Value | None = None,
    background: bool = False,
    after: Sequence[Value] = (),
) -> Examined:
    """Examine a command that would run in ``cwd`` (absolute, or "" if unknown). Never raises; linear in the command's length.

    ``stdin``: its standard input; ``background``: it runs beside later calls. ``after``: find only what follows this act.
    """
    if len(command) > setting.max_chars:
        return Examined([too_long(command, setting)])
    found = of_text(command, cwd)
    now = now_of(cwd, shell, setting.home, files)
    if stdin is not None or background:
        now = replace(now, stdin=stdin, background=background)
    meaning = interpret(command, now, files, _budget(setting.max_chars), filed())
    if after:
        at = next((number for number, act in enumerate(meaning.acts, 1) if act.argv == after), len(meaning.acts))
        meaning = replace(meaning, acts=meaning.acts[at:])
    real = getattr(files, "real", None)
    looks = Looks(files, None if shell is None else shell.variables, setting.home)
    path = "" if shell is None else shell.variables.get("PATH", "")
    ours = Ours(setting.installed, path, files.inspect_path) if setting.installed.closed or setting.installed.sessions else None
    found += assess(
        meaning, protected=setting.protected, home=setting.home, extra=setting.rules, real=real, looks=looks, ours=ours
    )
    made = {} if looks.moves_in else None if shell is None or background else meaning.made
    words = [_words(act) for act in meaning.acts if act.argv]
    return Examined(found, words, meaning.files, meaning.copies, meaning.read, made, meaning.rewrites, meaning.acts)


def too_long(text: str, setting: Setting) -> Finding:
    return _opaque("too-long", f"longer than {setting.max_chars} characters: too long to judge", text)


def of_text(text: str, cwd: str) -> list[Finding]:
    """Return the findings of a text as it is written: hidden characters, and patterns that were added."""
    found: list[Finding] = []
    if hidden := unseen(text):
        shown = f"it contains {hidden.encode('unicode_escape', 'surrogatepass').decode()}, which a screen does not show as it is"
        found.append(_opaque("characters", shown, text))
    return found + _by_added_patterns(text, cwd)


def detect_dangerous_command(
    command: str, cwd: str = "", *, protected: Sequence[str] = (), max_chars: int = MAX_COMMAND_CHARS
) -> list[Finding]:
    """Return all findings of ``command``, run by this account; [] if there is none (003-24). Reads no file."""
    setting = Setting(protected=protected, max_chars=max_chars, home=person_home())
    return list(examine(command, cwd, None, NoFiles(), setting).findings)


def now_of(cwd: str, shell: ShellState | None, home: str, files: Snapshot) -> ShellNow:
    """Return the known facts about the shell that would read a command."""
    if shell is None:
        return _new_shell(cwd, home)
    return ShellNow(
        cwd=cwd,
        home=shell.variables.get("HOME", home),
        variables=shell.variables,
        aliases=shell.aliases,
        functions=shell.functions,
        positional=shell.positional,
        interactive=shell.aliases_on,
        attributes=shell.attributes,
        arrays=shell.arrays,
        traps=shell.traps,
        made=files.temporary(shell.variables) if knows_temporary(files) else frozenset(),
    )


@functools.lru_cache(maxsize=64)
def _new_shell(cwd: str, home: str) -> ShellNow:
    return ShellNow(cwd=cwd, home=home)


@functools.lru_cache(maxsize=8)
def _budget(max_chars: int) -> Budget:
    return Budget(chars=max_chars)


def _words(act: Act) -> tuple[str, ...]:
    words = [value.text for value in act.argv]
    if act.wrappers or act.redirects:
        words = [*act.wrappers, *words, *(f"{one.op} {one.path.text}" for one in act.redirects)]
    return tuple([word.replace(HOLE, "…") for word in words] if HOLE in "".join(words) else words)


def _by_added_patterns(command: str, cwd: str) -> list[Finding]:
    """Return findings by patterns that were appended to DANGEROUS_PATTERNS.

    An invalid pattern counts as found in every command.
    """
    found = []
    for pattern, description in added():
        try:
            match = re.search(pattern, command, re.IGNORECASE)
        except re.error as error:
            found.append(_opaque("pattern", f"the pattern {pattern!r} for {description!r} can't be read: {error}", command))
            continue
        if match is not None:
            argv = simple_argv(command) or ()
            key = f"pattern@{description}"
            found.append(Finding(key, "ask", description, visible(command), argv=argv, plain=bool(argv), cwd=cwd))
    return found


def _opaque(key: str, why: str, command: str) -> Finding:
    return Finding(f"opaque.{key}", "ask-once", why, visible(command), effect="local")
