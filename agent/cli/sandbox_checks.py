"""Check of this machine's sandbox for `toolcrib doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agent.cli.finding import CheckFinding
from agent.config import Config

if TYPE_CHECKING:
    from tools.environments.local.holding import Mode, SandboxHolding


def check_sandbox(config: Config | None) -> Iterator[CheckFinding]:
    """Find out which sandbox mode this machine supports, and compare it with the configured one."""
    from tools.environments.local.holding import sandbox_here

    wanted = config.sandbox.mode if config is not None else "none"
    held = sandbox_here("workspace" if wanted == "none" else wanted)
    if wanted == "none":
        can = f"this machine can hold the mode {held.mode}" if held.mode != "none" else f"none can be made: {held.why_not_more}"
        yield CheckFinding("sandbox.off", "ok", f"commands on this machine are not sandboxed (sandbox.mode: none); {can}")
    elif held.mode == wanted and held.by == "namespaces":
        yield CheckFinding("sandbox.holds", "ok", f"commands on this machine run in a sandbox of the mode {wanted}")
    elif held.mode == "none":
        yield CheckFinding("sandbox.none", "wrong", f"commands on this machine are not sandboxed: {held.why_not_more}", held.fix)
    else:
        text = f"the sandbox of this machine holds less than sandbox.mode: {wanted} asks for: {held.why_not_more}"
        yield CheckFinding("sandbox.weak", "note", text, held.fix)
    if config is not None and config.sandbox.network == "hosts":
        yield from _check_hosts(wanted, held)


def _check_hosts(wanted: Mode, held: SandboxHolding) -> Iterator[CheckFinding]:
    if wanted == held.mode == "workspace":
        yield CheckFinding("sandbox.hosts", "ok", "commands reach only hosts that you allow (sandbox.network: hosts)")
        return
    reached = "no network" if wanted == "own" and held.by == "namespaces" else "all of the network"
    text = f"sandbox.network: hosts needs the mode workspace, so commands have {reached}"
    yield CheckFinding("sandbox.hosts", "note", text, held.fix or "set sandbox.mode: workspace")
