"""Commands outside the sandbox: which calls run there, which programs must, and the text that offers this to the model."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.contract.containment import Contained, Containment, DeniedConnection, HasOutside
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import RunsCommand
from toolcrib.contract.environment import Environment, ExecOutcome
from toolcrib.contract.errors import EnvironmentFailed, InvalidArguments
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Json
from tools.contained.stopped import MOST, Denial, denials, innermost
from tools.environments.rows import HERE

SETTING = "sandbox.outside"
"""The operator's setting: ``ask``, or ``never``."""
NOTICE = "ran outside the sandbox in another shell: changes of variables and folder do not carry over"
_FOREGROUND = (
    "the command can't work in the sandbox, and in the background or in a terminal it runs only there: leave out background and"
    " pty, try it in the sandbox with outside: false, or ask the user to run it"
)
_REFUSED = "outside: no command runs outside the sandbox here (sandbox.outside is never); leave it out"


def is_elsewhere(where: str) -> bool:
    """Return whether the environment with this name is elsewhere: neither this machine nor its sandbox."""
    return bool(where) and where not in HERE


def containment_of(environment: Environment) -> Containment | None:
    """Return what an environment's sandbox restricts, or None if it has none or cannot describe it now."""
    try:
        return environment.containment() if isinstance(environment, Contained) else None
    except (OSError, ValueError, EnvironmentFailed):
        return None


def can_ask(environment: Environment, settings: Mapping[str, Json]) -> bool:
    """Return whether a command may run outside the environment's sandbox after the user agrees."""
    asked = settings.get(SETTING, "never") == "ask"
    return asked and isinstance(environment, HasOutside) and containment_of(environment) is not None


def judged_in(ctx: ToolCallContext) -> Environment:
    """Return the environment of a call's effects: the session's own, or the one outside its sandbox."""
    environment = ctx.environment
    is_outside = any(isinstance(effect, RunsCommand) and effect.outside for effect in ctx.effects)
    return environment.outside() if is_outside and isinstance(environment, HasOutside) else environment


async def outside_effect(args: Mapping[str, Any], ctx: ToolCallContext) -> RunsCommand | None:
    """Return the effect of a call that runs outside the sandbox, None for one that stays inside.

    A call runs outside if its arguments request it, or if they leave it open and the command starts a program that cannot work
    inside. Raises InvalidArguments.
    """
    environment, wanted = ctx.environment, args.get("outside")
    holds = containment_of(environment)
    if holds is None or not isinstance(environment, HasOutside):
        return None
    if not can_ask(environment, ctx.settings):
        if wanted:
            raise InvalidArguments(_REFUSED)
        return None
    command, given = args["command"], args.get("cwd") or ""
    if wanted is False or (wanted is None and not needs_outside(command, holds)):
        return None
    if args.get("background") or args.get("pty"):  # before a user is asked
        raise InvalidArguments(_FOREGROUND)
    outside = environment.outside()
    cwd = await outside.resolve(given if given.startswith("~") else posixpath.join(environment.cwd, given))
    if innermost(holds, cwd) == "ephemeral":
        raise InvalidArguments(f"cwd: {cwd} exists only in the sandbox; use a folder of the project to run outside of it")
    return RunsCommand(command, cwd, await outside.shell_state(), outside=True)


# -- programs that cannot work inside ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """Programs that must run outside: always, or if one of their arguments is among ``args``.

    ``lacks``: what the sandbox withholds: rights, services of this machine, or the folder of keys with that name.
    """

    names: frozenset[str]
    lacks: str
    args: frozenset[str] = frozenset()


def _row(names: str, lacks: str, args: str = "") -> _Row:
    return _Row(frozenset(names.split()), lacks, frozenset(args.split()))


_INSTALL = "install remove purge upgrade update full-upgrade dist-upgrade autoremove erase reinstall add del -i -r -S -U -R -Syu"
_ROWS = (
    _row("sudo su doas pkexec run0 mount umount modprobe insmod reboot shutdown poweroff crontab", "rights"),
    _row("apt apt-get aptitude dnf yum zypper pacman apk dpkg rpm snap flatpak", "rights", _INSTALL),
    _row("docker docker-compose podman podman-compose nerdctl", "services"),
    _row("systemctl loginctl machinectl busctl systemd-run service", "services"),
    _row("ssh scp sftp ssh-add ssh-copy-id", ".ssh"),
    _row("gpg gpg2", ".gnupg", "-s --sign --clearsign --clear-sign -b --detach-sign -d --decrypt"),
    _row("git", ".gnupg", "-S --gpg-sign"),
)
_SEARCHES = frozenset("log diff show whatchanged format-patch rev-list".split())
"""Commands of git whose -S does not sign."""
_BY_NAME = {name: row for row in _ROWS for name in row.names}
RUNNERS = frozenset("env nohup timeout nice ionice time xargs find bash sh command exec stdbuf setsid strace".split())
"""Programs that run the program named in their arguments."""
_ONLY_TELLS = frozenset({"--version", "--help", "-V", "version"})
_MAY_NAME = Regex(rf"(?<![\w-])(?:{'|'.join(sorted(_BY_NAME))})(?![\w-])")


def needs_outside(command: str, holds: Containment) -> bool:
    """Return whether a command starts a program that cannot work in the sandbox."""
    if _MAY_NAME.search(command) is None:
        return False
    from tools.judge.detect import examine
    from tools.judge.meaning.state import NoFiles
    from tools.judge.setting import Setting

    return any(_needs(words, holds) for words in examine(command, "", None, NoFiles(), Setting()).commands)


def _needs(words: Sequence[str], holds: Containment) -> bool:
    for number, word in enumerate(words):
        name = posixpath.basename(word)
        if (row := _BY_NAME.get(name)) is not None:
            args = words[number + 1 :]
            fits = not row.args or (not row.args.isdisjoint(args) and not (name == "git" and _SEARCHES.intersection(args)))
            return fits and _ONLY_TELLS.isdisjoint(args[:1]) and _lacks(row.lacks, holds)
        if name not in RUNNERS:
            return False
    return False


def _lacks(what: str, holds: Containment) -> bool:
    if what == "rights":
        return True
    if what == "services":
        return holds.mode == "workspace"
    return any(posixpath.basename(path) == what for path in holds.masked)


# -- texts ---------------------------------------------------------------------------------------------------------

_STOPPED: Mapping[str, Callable[[str], str]] = {
    "path": lambda what: f"{what or 'a path outside the project'} can't be used in it",
    "host": lambda what: f"{what or 'a host'} can't be reached from it",
    "socket": lambda what: f"{what} can't be reached from it",
    "privilege": lambda what: "a program needs more rights than it gives",
    "process": lambda what: "it limits processes",
}
_GRANTS = {"path": "allow the folder (sandbox.write)", "host": "allow the host (sandbox.network)"}
_LASTING = "allow the host in each session (sandbox.hosts)"


def offer(found: Sequence[Denial], *, ask: bool, hosts: Sequence[str] = ()) -> str:
    """Return the text about what the sandbox stopped and what can be done, "" if nothing was stopped.

    ``ask``: the command may run outside. ``hosts``: hosts that a call can request.
    """
    if not found:
        return ""
    said = "; ".join(dict.fromkeys(_STOPPED[denial.kind](denial.what) for denial in found))
    grants = {**_GRANTS, "host": _LASTING} if hosts else _GRANTS
    ways = [grant for kind, grant in grants.items() if any(denial.kind == kind for denial in found)]
    fix = f" The user can {' or '.join(ways)}." if ways else ""
    if hosts:
        fix += f" To reach it, call again with hosts: {json.dumps(hosts)}; the user is asked unless they agreed in this session."
    if ask:
        fix += " To run this one command outside, call again with outside: true; the user is asked."
    return f"The sandbox stopped this: {said}.{fix or ' Find another way, or name the command for the user to run.'}"


def offer_after(
    outcome: ExecOutcome, environment: Environment, settings: Mapping[str, Json], refused: Sequence[DeniedConnection] = ()
) -> str:
    """Return the text about what the environment's sandbox denied to a command, "" if nothing was denied.

    ``refused``: the connections that it refused while the command ran.
    """
    holds = containment_of(environment)
    if holds is None:
        return ""
    hosts = [f"localhost:{one.port}" if one.host == "localhost" else one.host for one in refused][:MOST]
    found = denials(outcome, holds, refused)
    return offer(found, ask=can_ask(environment, settings), hosts=list(dict.fromkeys(hosts)))


def without(schema: Mapping[str, Json], *left_out: str) -> dict[str, Json]:
    """Return the schema of a tool without some of its parameters."""
    parameters = schema["parameters"]
    kept = {name: shown for name, shown in parameters["properties"].items() if name not in left_out}
    return {**schema, "parameters": {**parameters, "properties": kept}}


def plain_schema(schema: dict[str, Json], _: frozenset[str]) -> dict[str, Json]:
    """Return the schema of the terminal tool for a session without a sandbox."""
    return without(schema, "outside", "hosts")
