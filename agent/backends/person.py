"""Programs that run for a user in a backend, on their own terminal. They are neither judged nor recorded."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.contract.errors import EnvironmentFailed

if TYPE_CHECKING:
    from agent.backends.base import Backend, Opener
    from tools.environments.local.network import NetworkGuard


def run_program(argv: list[str], folder: str, env: dict[str, str] | None = None) -> int:
    """Run a program to its end; return its exit code. Raises EnvironmentFailed."""
    try:
        return subprocess.call(argv, cwd=folder, env=env)
    except OSError as error:
        raise EnvironmentFailed(f"{argv[0]} cannot be started: {error.strerror or error}") from error


def in_sandbox(opener: Opener, backend: Backend, start: str, command: Sequence[str] = ()) -> int:
    """Run a command, or else a shell, in a sandbox like that of the backend's sessions. Return its exit code.

    Raises EnvironmentFailed.
    """
    from tools.environments.local.child_env import child_environment

    environment: Any = opener(backend, "")
    try:
        env = {**child_environment(backend.options["pass_env"]), "TERM": os.environ.get("TERM", "dumb")}
        *launcher, shell = environment.person_argv()
        if backend.limits_hosts:
            return _run_with_hosts(environment.person_network(), launcher, command or [shell], start, env)
        return run_program([*launcher, *(command or [shell])], start, env)
    finally:
        asyncio.run(environment.close())


def _run_with_hosts(
    reach: NetworkGuard, launcher: Sequence[str], command: Sequence[str], folder: str, env: Mapping[str, str]
) -> int:
    """Run a command in a sandbox with the network of ``reach``. The command waits until the network is ready."""

    def said(text: str) -> None:
        sys.stderr.write(f"toolcrib: {text}\n")

    reach.said = said
    waiting, ready = os.pipe()
    wait = f'read -r _ <&{waiting}; exec {waiting}<&-; exec "$@"'
    try:
        process = subprocess.Popen(
            [*launcher, "bash", "-c", wait, "bash", *command], cwd=folder, env={**env, **reach.environment()}, pass_fds=[waiting]
        )
    except OSError as error:
        os.close(ready)
        raise EnvironmentFailed(f"{launcher[0]} cannot be started: {error.strerror or error}") from error
    finally:
        os.close(waiting)
    try:
        reach.join_new(process)
        os.close(ready)
        return process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
