"""Tests the sandbox of this machine by commands in it: what they can change, read and reach."""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from agent.backends import Backend, Backends, Location
from toolcrib.contract.containment import Contained, Containment
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.environment import Environment, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed

_LIMIT = 60.0
_FEW = 64
"""Limit on processes during the trial: reaching the configured limit could take gigabytes."""
_END = "toolcrib: end"
_ASK_PROXY = r'''exec 3<>"/dev/tcp/127.0.0.1/${{HTTP_PROXY##*:}}" && printf 'CONNECT {target} HTTP/1.1\r\n\r\n' >&3
read -r -t 30 line <&3 && echo "$line"'''
"""Script that asks the proxy for a connection, and prints the first line of its answer."""
_TMP = "/tmp"  # noqa: S108 - the sandbox's own folder, which is tested


@dataclass(frozen=True, slots=True)
class SandboxTrial:
    """Result of one trial. ``problem`` is "" if the sandbox works as promised; ``untried`` is why it could not be tested."""

    what: str
    problem: str = ""
    untried: str = ""


def try_sandbox(backends: Backends, backend: Backend, start: str, own: Sequence[Path]) -> list[SandboxTrial]:
    """Test each guarantee of the sandbox in a new sandbox. ``own`` are toolcrib's own folders.

    Raises EnvironmentFailed if no sandbox starts, or if it ends early.
    """
    return asyncio.run(_try(backends, backend, start, [os.path.realpath(path) for path in own]))


async def _try(backends: Backends, backend: Backend, start: str, own: Sequence[str]) -> list[SandboxTrial]:
    environment = await asyncio.to_thread(backends.open, Location(backend, start), "")
    try:
        held = environment.containment() if isinstance(environment, Contained) else None
        if held is None:
            raise EnvironmentFailed("commands are not sandboxed, so there is nothing to test")
        found = [await _project(environment, held)]
        if held.mode == "workspace":
            found += [
                await _outside(environment, held, start),
                await _masked(environment, held, own),
                await _temporary(environment),
            ]
        found += [await _own_files(environment, own), await _network(environment, held)]
    finally:
        await environment.close()
    return [*found, await _processes(backends, backend, start)]


async def _said(environment: Environment, script: str) -> str:
    """Return what a script prints on its standard output. Raises EnvironmentFailed if it did not run to its end."""
    outcome = await environment.execute(ExecRequest(f"( {script}\n) 2>/dev/null; echo '{_END}'", timeout=_LIMIT))
    said = outcome.stdout.head.decode(errors="replace").strip()
    if not said.endswith(_END):  # silence must not count as a working sandbox
        raise EnvironmentFailed(f"a test command did not finish ({outcome.ended}). {outcome.notice}".strip())
    return said.removesuffix(_END).strip()


async def _project(environment: Environment, held: Containment) -> SandboxTrial:
    name = _new_name()
    if not _is_in_any(environment.cwd, held.writable):
        return SandboxTrial("the project can be written", untried=f"{environment.cwd} is not a project")
    said = await _said(environment, f"echo well >{name} && cat {name} && rm {name}")
    return SandboxTrial("the project can be written", "" if said == "well" else f"no file could be created in {environment.cwd}")


async def _outside(environment: Environment, held: Containment, start: str) -> SandboxTrial:
    what = "files outside the project can't be written"
    folder = _outer_folder(held, start)
    if not folder:
        return SandboxTrial(what, untried="your account can't write there either")
    return SandboxTrial(f"{what}: {folder}", await _written(environment, [folder]))


async def _masked(environment: Environment, held: Containment, own: Sequence[str]) -> SandboxTrial:
    what = "keys can't be read"
    keys = keys_of(held, own)
    if not keys:
        return SandboxTrial(what, untried="this machine has no such files")
    return SandboxTrial(f"{what}: {', '.join(Path(path).name for path in keys)}", await _seen(environment, keys))


def _outer_folder(held: Containment, start: str) -> str:
    """Return a folder that the user could change without a sandbox, and sandboxed commands can't; "" if there is none."""
    apart = (*held.writable, *held.ephemeral, *held.masked)
    folders = [os.path.realpath(path) for path in (Path.home(), Path(start).parent, "/usr/local", "/etc")]
    return next((one for one in folders if os.access(one, os.W_OK) and not _is_in_any(one, apart)), "")


def keys_of(held: Containment, own: Sequence[str]) -> list[str]:
    """Return the masked files and folders that exist on this machine, without those in ``own``."""
    return [path for path in held.masked if Path(path).exists() and not _is_in_any(path, own)]


async def _own_files(environment: Environment, own: Sequence[str]) -> SandboxTrial:
    what = "toolcrib's own files can't be read or written"
    return SandboxTrial(what, await _seen(environment, own) or await _written(environment, own))


async def _temporary(environment: Environment) -> SandboxTrial:
    with tempfile.NamedTemporaryFile(prefix=".toolcrib-test-", dir=_TMP) as file:
        seen = await _said(environment, f"[ -e {file.name} ] && echo seen")
    problem = "commands see this machine's" if seen else await _written(environment, [_TMP])
    return SandboxTrial(f"{_TMP} is private", problem)


async def _network(environment: Environment, held: Containment) -> SandboxTrial:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address, port = listener.getsockname()
        reached = await _said(environment, f"exec 3<>/dev/tcp/{address}/{port} && echo reached")
        answer = await _said(environment, _ASK_PROXY.format(target=f"{address}:{port}")) if held.network == "hosts" else ""
    if held.network == "on":
        return SandboxTrial("the network is this machine's", "" if reached else f"commands don't reach {address}")
    if held.network == "hosts":
        problem = f"commands reach services at {address} of this machine" if reached else ""
        if not problem and " 403 " not in answer:
            problem = f"the proxy did not refuse {address}:{port}, which is not allowed: {answer or 'no answer'}"
        return SandboxTrial("the network reaches only allowed hosts", problem)
    return SandboxTrial("the network is closed", f"commands reach services at {address} of this machine" if reached else "")


async def _processes(backends: Backends, backend: Backend, start: str) -> SandboxTrial:
    """Return the result of starting more processes than a sandbox with a low limit allows."""
    from tools.environments.local.holding import sandbox_here

    what = "the number of processes is limited"
    if sandbox_here("own").by == "landlock":
        return SandboxTrial(what, untried="Landlock has no such limit")
    settings = backend.options.get("sandbox")
    few = {"processes": _FEW} if settings is None else {"sandbox": replace(settings, processes=_FEW)}
    small = replace(backend, options={**backend.options, **few})
    environment = await asyncio.to_thread(backends.open, Location(small, start), "")
    script = f"for each in {{1..{_FEW * 2}}}; do sleep {_LIMIT:g} & done; wait"
    try:
        outcome = await environment.execute(ExecRequest(script, timeout=_LIMIT))
    finally:
        await environment.close()
    return SandboxTrial(what, "" if "sandbox.processes" in outcome.notice else f"{_FEW * 2} processes ran with a limit of {_FEW}")


async def _seen(environment: Environment, paths: Sequence[str]) -> str:
    """Return a message with the files and folders that commands can read, "" for none."""
    script = "".join(f'[ -z "$(ls -A {word}/; head -c 1 {word})" ] || echo {word}\n' for word in map(shlex.quote, paths))
    said = await _said(environment, script)
    return f"commands can read {', '.join(said.splitlines())}" if said else ""


async def _written(environment: Environment, folders: Sequence[str]) -> str:
    """Return a message with the folders of this machine where commands can create files, "" for none."""
    files = [f"{folder}/{_new_name()}" for folder in folders]
    await _said(environment, "\n".join(f"echo x >{shlex.quote(file)}" for file in files))
    found = [str(Path(file).parent) for file in files if _removed(file)]
    return f"commands can write {', '.join(found)}" if found else ""


def _removed(file: str) -> bool:
    """Remove a file of the trial. Return whether it was there."""
    try:
        os.unlink(file)  # noqa: PTH108 - a string, as all paths here
    except FileNotFoundError:
        return False
    except OSError:  # another account made it
        return True
    return True


def _new_name() -> str:
    return f".toolcrib-test-{secrets.token_hex(6)}"


def _is_in_any(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)
