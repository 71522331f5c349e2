"""The wizard's sandbox of `local`: what it does, which modes this machine supports, and the flag that chooses one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.backends import Backend
    from agent.cli.setup.wizard import Wizard
    from tools.environments.local.holding import Mode

LABELS = {
    "none": ": this machine, with your rights: no sandbox",
    "workspace": ", sandbox workspace: commands write only the project (recommended)",
    "own": ", sandbox own: commands cannot reach toolcrib's own files",
}
"""Mode -> its label as a choice, after the backend's name."""
_SANDBOX = (
    "sandbox: commands on this machine write only the project, private caches and a private /tmp, cannot read keys, and reach"
    " only hosts that you allow"
)
_SNAPSHOTS = "snapshots: /undo and `toolcrib undo` revert changes that commands made in the project"
_MODES: tuple[Mode, ...] = ("workspace", "own", "none")


def explain(wizard: Wizard) -> None:
    """Print two lines: what the sandbox and the snapshots do, and how to turn them on if they are off or unsupported now."""
    from tools.environments.local.holding import sandbox_here

    config, held = wizard.before, sandbox_here("workspace")
    lack = f". It does not work here: {held.why_not_more}. To get it: {held.fix}" if held.mode != "workspace" else ""
    off = "" if lack or config.sandbox.mode == "workspace" else ". To turn it on: --sandbox workspace"
    wizard.person.print_text(f"{_SANDBOX}{lack or off}")
    off = "" if config.snapshots.enabled else ". To turn them on: toolcrib config set snapshots.enabled true"
    wizard.person.print_text(f"{_SNAPSHOTS}{off}")


def modes_here(wizard: Wizard) -> list[Mode]:
    """Return the current mode, then the others that this machine supports."""
    from tools.environments.local.holding import sandbox_here

    now = wizard.before.sandbox.mode
    return [now, *(mode for mode in _MODES if mode != now and sandbox_here(mode).mode == mode)]


def label(mode: Mode) -> str:
    """Return a mode's label as a choice, after the backend's name."""
    from tools.environments.local.holding import sandbox_here

    held = sandbox_here(mode).mode
    return LABELS[mode] if held == mode else f", sandbox {mode}, which does not work here{LABELS[held]}"


def check_flag(wizard: Wizard, backend: Backend) -> None:
    """Raise ToolcribError if --sandbox is given for a backend other than local, or for local with another sandbox configured.

    Print a note if this machine does not support the mode.
    """
    from tools.environments.local.holding import sandbox_here
    from tools.environments.rows import LOCAL

    mode: Mode | Literal[""] = wizard.args.sandbox
    if not mode:
        return
    if not backend.row.has_mode:
        fix = "unset environments.local.sandbox" if backend.name == LOCAL else "add --backend local"
        raise ToolcribError(f"--sandbox {mode} is for local without another sandbox, but the backend is {backend.target}: {fix}")
    held = sandbox_here(mode)
    if held.mode != mode:
        wizard.person.print_text(f"note: sandbox {mode} does not work here: {held.why_not_more}. To get it: {held.fix}")
