"""Layers around a call: the sandbox of its environment, and the snapshots of the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.environment import Environment
from tools.approval.modes import DEFAULT
from tools.contained.outside import containment_of

if TYPE_CHECKING:
    from tools.approval.policy import Policy
    from tools.judge.findings import Finding
    from tools.judge.layers import Layers

_LEFT_OUT = "toolcrib's own settings and state are hidden in the sandbox, so the command did not read them"


def layers_of(policy: Policy, entry: ToolEntry, environment: Environment) -> Layers | None:
    """Return the layers around this call, or None if it is judged without any.

    There are none in a mode stricter than the default, none for a plugin's tool, and none without a sandbox of mode workspace.
    """
    if policy.mode != DEFAULT or not entry.is_built_in:
        return None
    held = containment_of(environment)
    if held is None or held.mode != "workspace":
        return None
    from tools.judge.layers import Layers

    covers, covers_most = policy.covers, policy.covers_all_but_ignored
    return Layers(
        held.writable,
        held.ephemeral,
        held.masked,
        held.read_only,
        held.network,
        held.has_hosts,
        covers,
        reaches_all_covered=covers is not None and all(map(covers, held.writable)),
        reaches_all_but_ignored=covers_most is not None and all(map(covers_most, held.writable)),
    )


def notice_of(held: Sequence[Finding]) -> str:
    """Return the notice for the result of a call whose findings the layers contain, "" if there is none."""
    return _LEFT_OUT if any(finding.key == "self.above" for finding in held) else ""


async def settled_layers(policy: Policy, entry: ToolEntry, environment: Environment) -> Layers | None:
    """Wait until the snapshots know what they cover, then return ``layers_of``."""
    found = layers_of(policy, entry, environment)
    if found is None or policy.measured is None:
        return found
    await policy.measured()
    return layers_of(policy, entry, environment)
