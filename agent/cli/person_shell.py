"""A shell for a person in a backend, on their own terminal. Nothing of it is judged or recorded."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.backends import Backend, Backends, Location
from toolcrib.contract.environment import ExecRequest
from toolcrib.contract.errors import EnvironmentFailed

if TYPE_CHECKING:
    from tools.environments.docker.admin import OurContainer
    from tools.environments.local.network import NetworkGuard


def open_shell(backends: Backends, backend: Backend, start: str, *, cwd: str = "", container: OurContainer | None = None) -> int:
    """Run a shell to its end; return its exit code. ``start`` is a folder here, ``cwd`` one over there; ``container`` is entered.

    Raises EnvironmentFailed.
    """
    match backend.kind:
        case "local" if backend.held == "none":
            return _run([os.environ.get("SHELL") or "bash"], start)
        case "local" | "bubblewrap":
            return in_sandbox(backends, backend, start)
        case "ssh":
            from tools.environments.ssh import person_argv

            return _run(person_argv(**{**backend.options, "cwd": cwd or backend.options["cwd"]}), start)
        case "docker":
            return _in_container(backends, backend, start, container)
        case _:
            raise EnvironmentFailed(
                f"{backend.name!r} is a plugin's backend, which offers no shell for a person; choose another with NAME"
            )


def _run(argv: list[str], folder: str, env: dict[str, str] | None = None) -> int:
    try:
        return subprocess.call(argv, cwd=folder, env=env)
    except OSError as error:
        raise EnvironmentFailed(f"{argv[0]} cannot be started: {error.strerror or error}") from error


def in_sandbox(backends: Backends, backend: Backend, start: str, command: Sequence[str] = ()) -> int:
    """Run a command, or else a shell, in a sandbox like that of the backend's sessions. Return its exit code.

    Raises EnvironmentFailed.
    """
    from tools.environments.local.child_env import child_environment

    environment: Any = backends.open(Location(backend, start), "")
    try:
        env = {**child_environment(backend.options["pass_env"]), "TERM": os.environ.get("TERM", "dumb")}
        *launcher, shell = environment.person_argv()
        if backend.limits_hosts:
            return _run_with_hosts(environment.person_network(), launcher, command or [shell], start, env)
        return _run([*launcher, *(command or [shell])], start, env)
    finally:
        asyncio.run(environment.close())


def _run_with_hosts(
    reach: NetworkGuard, launcher: Sequence[str], command: Sequence[str], folder: str, env: Mapping[str, str]
) -> int:
    """Run a command in a sandbox with the network of ``reach``. The command waits until the network is there."""
    reach.said = lambda text: print(f"toolcrib: {text}", file=sys.stderr)
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


def _in_container(backends: Backends, backend: Backend, start: str, container: OurContainer | None) -> int:
    from tools.environments.docker.person import person_shell

    host = backend.options["host"]
    shell = ["sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"]
    if container is not None:
        if container.status != "running":
            raise EnvironmentFailed(f"the container {container.name} is {container.status}, not running: `docker start` it")
        return person_shell(host, container.name, shell, start if backend.options["project"] != "none" else "/tmp")  # noqa: S108 - its own
    environment = backends.open(Location(backend.fleeting, start), f"shell-{secrets.token_hex(4)}")
    try:
        asyncio.run(environment.execute(ExecRequest("true", timeout=60)))
        return person_shell(host, environment.identity.removeprefix("docker:"), shell, environment.cwd)
    finally:
        asyncio.run(environment.close())
