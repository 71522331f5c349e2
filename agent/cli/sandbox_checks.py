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
        can = held.mode if held.mode != "none" else f"none: {held.why_not_more}"
        yield CheckFinding(
            "sandbox.off",
            "ok",
            f"commands on this machine are not sandboxed (sandbox.mode: none); mode that this machine supports: {can}",
        )
    elif held.mode == wanted and held.by == "namespaces":
        yield CheckFinding("sandbox.holds", "ok", f"commands on this machine run in a sandbox with mode {wanted}")
    elif held.mode == "none":
        yield CheckFinding("sandbox.none", "wrong", f"commands on this machine are not sandboxed: {held.why_not_more}", held.fix)
    else:
        text = f"the sandbox of this machine is weaker than sandbox.mode: {wanted}: {held.why_not_more}"
        yield CheckFinding("sandbox.weak", "note", text, held.fix)
    if config is not None and config.sandbox.network == "hosts":
        yield from _check_hosts(wanted, held)


def _check_hosts(wanted: Mode, held: SandboxHolding) -> Iterator[CheckFinding]:
    if wanted == held.mode == "workspace":
        yield CheckFinding("sandbox.hosts", "ok", "commands reach only hosts that you allow (sandbox.network: hosts)")
        return
    reached = "no network" if wanted == "own" and held.by == "namespaces" else "the whole network"
    text = f"sandbox.network: hosts needs mode workspace, so commands have {reached}"
    yield CheckFinding("sandbox.hosts", "note", text, held.fix or "set sandbox.mode: workspace")
