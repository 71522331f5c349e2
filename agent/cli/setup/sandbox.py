"""The wizard's sandbox of `local`: what it does, which modes this machine can hold, and the flag that chooses one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from toolcrib import ToolcribError

if TYPE_CHECKING:
    from agent.backends import Backend
    from agent.cli.setup.wizard import Wizard
    from tools.environments.local.holding import Mode

LABELS = {
    "none": ": this machine, as you: no sandbox",
    "workspace": ", sandbox workspace: commands write only the project (recommended)",
    "own": ", sandbox own: only toolcrib's own files are closed to commands",
}
"""Mode -> how it is offered, after the backend's name."""
_DOES = "a sandbox of this machine: commands write only the project, private caches and a private /tmp, and read no keys"
_MODES: tuple[Mode, ...] = ("workspace", "own", "none")


def offered(wizard: Wizard) -> list[str]:
    """Say in two lines what the sandbox does and whether it holds here. Return the modes that hold, the present one first."""
    from tools.environments.local.holding import sandbox_here

    held = sandbox_here("workspace")
    wizard.person.tell(f"  {_DOES}")
    if held.mode == "workspace":
        wizard.person.tell("  it holds here; choose it now, or later: toolcrib config set sandbox.mode workspace")
    else:
        wizard.person.tell(f"  it does not hold here: {held.why_not_more}. To get it: {held.fix}")
    now = wizard.before.sandbox.mode
    return [now, *(mode for mode in _MODES if mode != now and sandbox_here(mode).mode == mode)]


def check_flag(wizard: Wizard, backend: Backend) -> None:
    """Raise ToolcribError if --sandbox is given for another backend than local. Say so if the mode does not hold here."""
    from agent.backends import LOCAL
    from tools.environments.local.holding import sandbox_here

    mode: Mode | Literal[""] = wizard.args.sandbox
    if not mode:
        return
    if backend.kind != LOCAL:
        fix = "unset environments.local.sandbox" if backend.name == LOCAL else "add --backend local"
        raise ToolcribError(f"--sandbox {mode} is for local without another sandbox, and the backend is {backend.target}: {fix}")
    held = sandbox_here(mode)
    if held.mode != mode:
        wizard.person.tell(f"note: sandbox {mode} does not hold here: {held.why_not_more}. To get it: {held.fix}")
