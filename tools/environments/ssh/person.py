"""A shell for the user: OpenSSH's client with the same settings, so that it reaches the same account in the same way."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.environments.ssh.target import Hop, Wish, resolve

_SETTINGS = (
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "GlobalKnownHostsFile=/dev/null",
    "PreferredAuthentications=publickey",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
)


def person_argv(*, cwd: str | None = None, env: Mapping[str, str] | None = None, **wish: Any) -> list[str]:
    """Return the command line to start in a terminal. The options are those of ``open_ssh``.

    ``env`` is not passed, because all users of the host could read it in the list of processes. If ``cwd`` cannot be entered, the
    shell reports it and starts in the login folder. Raises EnvironmentFailed for invalid options or an invalid ``~/.ssh/config``.
    """
    hops = resolve(Wish(**wish))
    there = ["-t", "--", hops[-1].host, _go_to(cwd)] if cwd and cwd != "~" else ["-t", "--", hops[-1].host]
    return [*_client(hops), *there]


def _client(hops: Sequence[Hop]) -> list[str]:
    """Return ``ssh`` and its options. A jump host gets its own client, because ProxyJump would not pass on these options."""
    *before, hop = hops
    argv = ["ssh", "-F", "none", "-l", hop.user, "-p", str(hop.port)]
    settings = [*_SETTINGS, f"UserKnownHostsFile={_files(hop)}", f"IdentitiesOnly={'yes' if hop.only_keys else 'no'}"]
    if hop.alias:
        settings.append(f"HostKeyAlias={hop.alias}")
    if not hop.agent:
        settings.append("IdentityAgent=none")
    if before:
        through = [*_client(before), "-W", f"[{hop.host}]:{hop.port}", "--", before[-1].host]
        settings.append(f"ProxyCommand={_plain(shlex.join(through))}")
    settings += [f"IdentityFile={_quoted(key)}" for key in hop.keys if hop.named or key.exists()]
    for setting in settings:
        argv += ["-o", setting]
    return argv


def _files(hop: Hop) -> str:
    return " ".join(_quoted(path) for path in hop.known_hosts) or "/dev/null"


def _quoted(path: Path) -> str:
    return _plain(f'"{path}"')


def _plain(text: str) -> str:
    """Escape percent signs, because the client expands %h and the like."""
    return text.replace("%", "%%")


def _go_to(cwd: str) -> str:
    """Return a command that works in any shell that the account may have."""
    home, _, rest = cwd.partition("/") if cwd.startswith("~") else ("", "", cwd)
    place = f"{home}/{shlex.quote(rest)}" if home else shlex.quote(rest)
    return f"cd {place}; exec $SHELL -l"
