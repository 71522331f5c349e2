"""The environment with the name ``ssh``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.remote.once import run_once
from tools.environments.remote.shell_channel import ChannelLost, NeverBegan
from tools.environments.remote.terminal import TerminalEnvironment
from tools.environments.ssh.link import SshLink
from tools.environments.ssh.target import Wish


def open_ssh(cwd: str | None = None, *, env: Mapping[str, str] | None = None, **wish: Any) -> Environment:
    """Open an environment over ssh. ``wish`` as in Wish: host, and user, port, identity_file, known_hosts and jump to override
    ``~/.ssh/config``.

    ``cwd`` is a folder on the host. If it is not an absolute path (default: the account's home), this function connects to
    the host to resolve it. ``env``: extra variables for commands. Raises EnvironmentFailed.
    """
    link = SshLink(Wish(**wish))
    try:
        start = cwd if cwd is not None and cwd.startswith("/") else _folder(link, cwd or "~")
    except BaseException:
        link.close()
        raise
    return TerminalEnvironment(link, start, env=env)


def _folder(link: SshLink, cwd: str) -> str:
    text = 'case $1 in "~") cd;; "~/"*) cd && cd -- "${1#??}";; *) cd -- "$1";; esac && pwd -P && echo .'
    try:
        answer = run_once(link, text, [cwd], b"")
    except NeverBegan as error:
        why = link.diagnose() or error
        raise EnvironmentFailed(f"no shell could be started in {link.where} ({why}); nothing was run: {link.advice()}") from error
    except ChannelLost as error:
        raise EnvironmentFailed(f"{link.where} was lost: {link.diagnose() or error}") from error
    if answer.status:
        raise EnvironmentFailed(f"the working folder {cwd} does not exist on {link.where}: create it or choose another")
    return answer.out.decode("utf-8", "surrogateescape").removesuffix("\n.\n")
