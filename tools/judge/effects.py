"""Effects of findings: how far the harm reaches, which decides whether a sandbox or a snapshot can contain it.

The effect follows from the finding's key. A key names a kind of harm, and nearly every kind reaches equally far with all
programs; a row of the rules that reaches less far or farther names its own effect. An unlisted key counts as ``outside``, so the
user is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

Effect: TypeAlias = Literal["local", "unknown", "remote", "outside"]
"""``local``: it changes or reads files of this machine; a sandbox stops that, or a snapshot undoes it.

``unknown``: it may have any effect; a sandbox that reaches no host keeps it local.

``remote``: it changes or sends something elsewhere. ``outside``: it reaches out of a sandbox on this machine: sockets, services,
devices, other processes.
"""

_KEYS: Mapping[Effect, str] = {
    "local": "code. fs. git. hg. log. opaque. package. persist. resource. secret.keys secret.read shell.escape svn. system. vcs.",
    "remote": "cloud. forge. git.push-delete git.push-force git.redirects git.serve hg.push-force http. iac. k8s. message."
    " net. network. nosql. package.unauthenticated queue. release. remote. resource.flood secrets. security.tls-off sql.",
    "outside": "account. backup. container. cron. device. jobs. kernel. machine. mode. net.firewall net.link pattern persist.at"
    " persist.cron persist.launchd persist.systemd persist.trigger power. process. resource.limits sandbox. schedule. secret."
    " security. self. service. shell. socket. system.setting terminal. tool. windows.",
}
"""Keys, and first parts of keys with their dot, for keys that are not listed."""

EFFECTS: Mapping[str, Effect] = {key: effect for effect, keys in _KEYS.items() for key in keys.split()}

_LEAVES_SANDBOX = frozenset(
    "sudo doas pkexec run0 su runuser sg newgrp login systemd-run machinectl flatpak-spawn flatpak snap at batch crontab tsp tmux"
    " screen zellij byobu dtach abduco emacsclient dbus-send gdbus busctl osascript".split()
)
"""Wrappers that let a service or a running program execute the command, or that change the user."""


def effect_of(key: str, place: str = "", wrappers: Sequence[str] = ()) -> Effect:
    """Return the effect of a finding with this key. ``place`` and ``wrappers`` are its act's (see Act)."""
    if place:
        return "remote" if place.startswith("ssh:") else "outside"
    if not _LEAVES_SANDBOX.isdisjoint(wrappers):
        return "outside"
    name = key.partition("@")[0]
    return EFFECTS.get(name.removesuffix("-root")) or EFFECTS.get(f"{name.partition('.')[0]}.", "outside")


def farther(one: Effect, other: Effect) -> Effect:
    """Return the effect that reaches farther."""
    return max(one, other, key=("local", "unknown", "remote", "outside").index)
