"""Findings under a sandbox and snapshots: which of them these layers contain, so that the user need not be asked.

A sandbox stops writes that it does not allow. A snapshot undoes a command's changes. The user is still asked about data that
leaves the machine, effects outside the sandbox, and anything not known to be contained. Pure: no file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.findings import UNKNOWN_PATH, Finding, visible
from tools.judge.folders import under
from tools.judge.meaning.value import HOLE

By: TypeAlias = Literal["sandbox", "undo", "person", "rule"]
"""A way to handle an effect: the ``sandbox`` stops it, ``undo`` reverts it, a ``person`` is asked, a ``rule`` refuses it."""

_KERNEL = ("/proc", "/sys", "/dev")
"""Folders whose entries are not files: writing one changes the machine, and no snapshot contains that."""
_RUNS_LATER = ("persist.",)
"""Key prefixes of findings about changes that may make something run outside the sandbox before an undo. Only the sandbox
contains them.
"""
_GUARDED = "persist.git-hooks"
"""Key of findings about files that git runs by itself. The sandbox reverts these files after the command, so no user is asked
if it is uncertain whether a command changes one.
"""
_READS_OWN = "self.above"
"""Key of findings about a command that reads a folder above toolcrib's own files. The finding's paths are these files, unless
the command may reach them in another way too.
"""
_READS_KEYS = "secret.read"
"""Key of findings about a command that reads keys or credentials."""
_GIT = ("git.branch-delete", "git.clean", "git.discard", "git.reset-hard", "git.stash-delete")
"""Keys of findings about git's effects on its own folder, on tracked files and on files that it does not ignore."""
_PAST_NETWORK = ("message.", "nosql.", "queue.", "sql.")
"""Key prefixes of findings about data that may leave the machine without a network: through toolcrib, or a server's socket."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A sandbox and the snapshots around a call. Folders are absolute, with links resolved; see toolcrib.Containment.

    ``has_hosts``: with the network ``hosts``, commands reach a host besides those of package managers.
    ``covers`` returns whether snapshots undo every change at and below a path; None: there are no snapshots.
    ``reaches_all_covered``: snapshots cover each path of ``writable``. ``reaches_all_but_ignored``: they cover them except for
    rebuildable folders that git ignores.
    """

    writable: Sequence[str]
    ephemeral: Sequence[str] = ()
    masked: Sequence[str] = ()
    read_only: Sequence[str] = ()
    network: Literal["none", "hosts", "on"] = "on"
    has_hosts: bool = True
    covers: Callable[[str], bool] | None = None
    reaches_all_covered: bool = False
    reaches_all_but_ignored: bool = False


class Handling(NamedTuple):
    """The handling of a finding. ``why`` is for users: "stopped by the sandbox: /etc/hosts is read-only there"."""

    by: By
    why: str


def remaining(findings: Sequence[Finding], layers: Layers) -> list[Finding]:
    """Return the findings that no layer contains: the user is asked about them, or a rule refuses them."""
    return [finding for finding in findings if handling(finding, layers).by in ("person", "rule")]


def handling(finding: Finding, layers: Layers, home: str = "") -> Handling:
    """Return how a finding of a call in these layers is handled. ``home`` is shown as ``~`` to users.

    If the network is ``hosts``, the user is asked about all remote findings, because an allowed host would receive the command's
    data. A host that is not allowed yet has its own finding, ``net.host@HOST``; a fetch from it has no other remote finding.
    """
    if finding.level == "block":
        return Handling("rule", "denied in any case")
    if finding.key == _READS_OWN and _are_masked(finding.paths, layers):
        return Handling("sandbox", "left out by the sandbox: toolcrib's own files are masked there")
    if finding.key == _READS_KEYS and finding.effect == "local":
        if _are_masked(finding.paths, layers):
            return Handling("sandbox", "stopped by the sandbox: keys are masked there")
        return Handling("person", "asked: the sandbox does not mask this file")
    if finding.effect == "outside":
        return Handling("person", "asked: it acts outside the sandbox")
    if finding.effect == "remote":
        if layers.network == "none" and not finding.key.startswith(_PAST_NETWORK):
            return Handling("sandbox", "stopped by the sandbox: it has no network")
        return Handling("person", "asked: it leaves this machine")
    if finding.effect == "unknown" and (layers.network == "on" or (layers.network == "hosts" and layers.has_hosts)):
        return Handling("person", "asked: it may reach hosts that the sandbox allows")
    found = dict.fromkeys(_of_path(path, finding, layers, home) for path in _places(finding))
    asked = next((one for one in found if one.by == "person"), None)
    if asked is not None:
        return asked
    by: By = "undo" if any(one.by == "undo" for one in found) else "sandbox"
    return Handling(by, "; ".join(one.why for one in found))


def _are_masked(paths: Sequence[str], layers: Layers) -> bool:
    return bool(paths) and all(path[:1] == "/" and _kind(path, layers) == "masked" for path in paths)


def _places(finding: Finding) -> Iterator[str]:
    """Yield the paths that a finding touches, a link's target in place of the link; UNKNOWN_PATH for an unknown one."""
    leads = dict(finding.leads)
    for path in finding.paths or (UNKNOWN_PATH,):
        yield path if path == UNKNOWN_PATH else leads.get(path, path)


def _of_path(path: str, finding: Finding, layers: Layers, home: str) -> Handling:
    """Return how a change at and below one path is handled."""
    later = finding.key.startswith(_RUNS_LATER)
    if path == UNKNOWN_PATH or path[:1] != "/" or HOLE in path:
        spared = layers.reaches_all_but_ignored and _spares_ignored(finding)
        if spared or (layers.reaches_all_covered and (not later or finding.key == _GUARDED)):
            return Handling("undo", "undone by /undo, unless the sandbox stops it")
        return Handling("person", "asked: which files it changes is only known when it runs, and snapshots don't cover all")
    shown = visible(f"~{path[len(home) :]}" if home not in ("", "/") and under(path, home) else path)
    kind = _kind(path, layers)
    if kind == "kernel":
        return Handling("person", f"asked: {shown} is not a file, and changing it changes the machine")
    reached = [folder for folder in layers.writable if under(folder, path)]
    if kind == "writable":
        reached.append(path)
    if not reached:
        return Handling("sandbox", _STOPPED[kind].format(shown))
    if later:
        return Handling("person", f"asked: {shown} may make something run outside the sandbox before an undo")
    if layers.covers is not None and all(map(layers.covers, reached)):
        return Handling("undo", "undone by /undo")
    return Handling("person", f"asked: snapshots don't cover all of {shown}")


def _spares_ignored(finding: Finding) -> bool:
    """Return whether a git command certainly leaves ignored files alone. False for ``git submodule``, which can run any command,
    and for a ``git clean`` with a detail in its key (``git.clean@ignored files``), which deletes more than untracked files.
    """
    key, _, detail = finding.key.partition("@")
    return (
        key in _GIT and finding.argv[:1] == ("git",) and "submodule" not in finding.argv and not (key == "git.clean" and detail)
    )


_STOPPED = {
    "ephemeral": "kept in the sandbox: {} is deleted with it",
    "masked": "stopped by the sandbox: {} is masked there",
    "read-only": "stopped by the sandbox: {} is read-only there",
}


def _kind(path: str, layers: Layers) -> str:
    """Return how the sandbox treats a path, by the nearest folder in its lists."""
    kinds = {
        "writable": layers.writable,
        "ephemeral": layers.ephemeral,
        "masked": layers.masked,
        "read-only": ("/", *layers.read_only),
        "kernel": _KERNEL,
    }
    found = [(len(folder), kind) for kind, folders in kinds.items() for folder in folders if under(path, folder)]
    return max(found, key=lambda one: one[0])[1]
