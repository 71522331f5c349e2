"""A digest of one answer's scope. It is equal in every process for the same call in the same state."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import DeletesFile, Effect, ReadsFile, RunsCommand, ShellState, WritesFile, WritesInput
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.types import Json, ToolCall
from tools.contained.outside import judged_in
from tools.judge.findings import Finding, digestible

_OF_ONE_PROCESS = frozenset(
    {
        *("BASH", "BASHPID", "BASH_ALIASES", "BASH_ARGC", "BASH_ARGV", "BASH_ARGV0", "BASH_CMDS", "BASH_COMMAND"),
        *("BASH_EXECUTION_STRING", "BASH_LINENO", "BASH_LOADABLES_PATH", "BASH_MONOSECONDS", "BASH_SOURCE", "BASH_SUBSHELL"),
        *("BASH_TRAPSIG", "BASH_VERSINFO", "BASH_VERSION", "COLUMNS", "COMP_WORDBREAKS", "DIRSTACK", "EPOCHREALTIME"),
        *("EPOCHSECONDS", "EUID", "FUNCNAME", "GROUPS", "HISTCMD", "HOSTNAME", "HOSTTYPE", "LINENO", "LINES", "MACHTYPE"),
        *("OLDPWD", "OSTYPE", "PIPESTATUS", "PPID", "PWD", "RANDOM", "SECONDS", "SHLVL", "SRANDOM", "UID", "_"),
    }
)
"""Variables that a shell sets or counts itself: they differ between processes, or only exist after a command."""

_USUAL: Mapping[str, str] = {"IFS": " \t\n", "OPTERR": "1", "OPTIND": "1", "PS4": "+ ", "SHELL": "/bin/bash"}
"""Values in an untouched shell. They count as unset."""

_USUAL_SET = frozenset({"braceexpand", "hashall", "interactive-comments"})
_NOT_READ = frozenset(
    "checkhash checkwinsize cmdhist complete_fullquote direxpand dirspell execfail histappend histreedit histverify hostcomplete"
    " huponexit lithist login_shell mailwarn no_empty_cmd_completion progcomp progcomp_alias promptvars shift_verbose".split()
)
"""Options that do not affect the meaning of a command."""
_USUAL_SHOPT = frozenset(
    "expand_aliases extquote force_fignore globasciiranges globskipdots interactive_comments patsub_replacement"
    " sourcepath".split()
)


def digest(
    call: ToolCall,
    ctx: ToolCallContext,
    findings: Sequence[Finding],
    files: Mapping[str, str],
    entry: ToolEntry | None = None,
) -> str:
    """Return a digest of this tool with these arguments, in this session, with these findings and files (path -> digest).

    It includes what a plugin's tool claims to be, because a plugin may have registered another tool with the same name since.
    It includes all of a shell's state that affects the command's meaning, and nothing that differs between equivalent shells. A
    variable that only one process has, such as PPID, counts if the command names it.
    """
    bound = {
        "tool": call.name,
        "args": call.args,
        "effects": [_effect(effect) for effect in ctx.effects],
        "cwd": cwd_of(ctx.effects),
        "environment": judged_in(ctx).identity,
        "files": files,
        "session": ctx.run_identity.session_id,
        "principal": ctx.run_identity.principal.key,
        "findings": [digestible(finding) for finding in findings],
    }
    if entry is not None and not entry.is_built_in:
        bound["plugin"] = entry.claims
    text = json.dumps(bound, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def command_of(effects: Sequence[Effect]) -> str | None:
    """Return the command of a call that does nothing but run one command, else None."""
    return effects[0].command if len(effects) == 1 and isinstance(effects[0], RunsCommand) else None


def cwd_of(effects: Sequence[Effect]) -> str:
    """Return the folder of the first command, or of the first process that is written to; "" if there is none."""
    return next((effect.cwd for effect in effects if isinstance(effect, RunsCommand | WritesInput)), "")


def owner_of(effects: Sequence[Effect]) -> str:
    """Return the command of the background process that a call starts or writes to, "" if there is none."""
    commands = [
        one.command for one in effects if isinstance(one, WritesInput) or (isinstance(one, RunsCommand) and one.background)
    ]
    return commands[0] if len(commands) == 1 else ""


def inputs_of(effects: Sequence[Effect]) -> list[dict[str, str]]:
    """Return what a call writes to the input of background processes, and what these run. ``keys`` has the keys that it presses
    in a terminal, unless they only type lines.
    """
    written = (effect for effect in effects if isinstance(effect, WritesInput))
    given = ({"name": one.process, "text": one.text, "program": one.command, "keys": _pressed(one)} for one in written)
    return [{key: text for key, text in one.items() if text or key != "keys"} for one in given]


def _pressed(effect: WritesInput) -> str:
    """Return keys as text for people: typed texts in quotation marks, names of keys as they are. "" for keys that type lines."""
    types = [key.startswith("text:") and key != "text: " for key in effect.keys]
    if effect.certain and types == [True, False] * (len(types) // 2) + [True] * (len(types) % 2):
        return ""
    texts = (json.dumps(key[5:], ensure_ascii=False) if key.startswith("text:") else key for key in effect.keys)
    return " ".join(texts)


def starts_of(effects: Sequence[Effect]) -> str:
    """Return how a call's background process starts, for users: "in the background"; "" for other calls."""
    if any(isinstance(effect, RunsCommand) and effect.terminal for effect in effects):
        return "in a terminal"
    found = [effect for effect in effects if isinstance(effect, RunsCommand) and (effect.background or effect.open_input)]
    opened = any(effect.open_input for effect in found)
    return "" if not found else "in the background, with its input open" if opened else "in the background"


def paths_of(effects: Sequence[Effect]) -> list[str]:
    """Return the files that a call declares to read, write or delete."""
    return [effect.path for effect in effects if isinstance(effect, WritesFile | DeletesFile | ReadsFile)]


def logged(effects: Sequence[Effect], redact: Callable[[str], str]) -> dict[str, Json]:
    """Return a call's command and folder, its paths and what it writes to processes, for the audit log."""
    found: dict[str, Json] = {}
    if (command := command_of(effects)) is not None:
        found = {"command": redact(command), "cwd": cwd_of(effects)}
        found |= {"starts": starts} if (starts := starts_of(effects)) else {}
    elif paths := paths_of(effects):
        found["paths"] = paths
    if written := inputs_of(effects):
        found["inputs"] = [{key: redact(text) for key, text in one.items()} for one in written]
    return found


def _effect(effect: Effect) -> Json:
    if isinstance(effect, RunsCommand):
        shell = None if effect.shell is None else _shell(effect.shell, effect.command)
        how = [name for name in ("background", "open_input") if getattr(effect, name)] + ["pty"] * effect.terminal
        return ["RunsCommand", effect.command, effect.cwd, shell, *how]
    if isinstance(effect, WritesInput):
        shell = None if effect.shell is None else _shell(effect.shell, f"{effect.command}\n{effect.before}\n{effect.text}")
        bound = ["WritesInput", effect.process, effect.text, effect.before, effect.command, effect.cwd, shell]
        return [*bound, list(effect.keys), effect.certain] if effect.keys else bound
    return repr(effect)


def _shell(state: ShellState, command: str) -> Json:
    named = frozenset(re.findall(r"\w+", command))
    variables = {name: value for name, value in state.variables.items() if _counts(name, value, named)}
    return {
        "variables": variables,
        "options": _options(state),
        "aliases": dict(state.aliases),
        "functions": dict(state.functions),
        "positional": list(state.positional),
        "aliases_on": state.aliases_on,
        "attributes": {
            name: "".join(sorted(letters))
            for name, letters in state.attributes.items()
            if name not in _OF_ONE_PROCESS and (name in variables or letters != "x")
        },
        "arrays": {name: dict(elements) for name, elements in state.arrays.items() if name not in _OF_ONE_PROCESS},
        "traps": dict(state.traps),
    }


def _counts(name: str, value: str, named: frozenset[str]) -> bool:
    if name in ("SHELLOPTS", "BASHOPTS"):
        return False
    if name in _OF_ONE_PROCESS:
        return name in named
    return _USUAL.get(name) != value


def _options(state: ShellState) -> list[str]:
    """Return the options that differ from those of an untouched shell: ``+name`` if on, ``-name`` if off."""
    changed: list[str] = []
    for variable, usual in (("SHELLOPTS", _USUAL_SET), ("BASHOPTS", _USUAL_SHOPT)):
        if variable in state.variables:
            on = frozenset(state.variables[variable].split(":")) - {""} - _NOT_READ
            changed += [f"+{name}" for name in on - usual] + [f"-{name}" for name in usual - on]
    return sorted(changed)
