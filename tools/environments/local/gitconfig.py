"""Configuration files of git: merge the harmless settings of a change, as git itself reads them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.folders import under

MOST_BYTES = 1_000_000
_MOST_KEYS = 40
"""Maximum number of settings that are merged one by one. If there are more, none of them is merged."""
_LIMIT = 20
"""Seconds that git has to answer."""

_HARMLESS: Sequence[str] = (
    *("branch.*.remote", "branch.*.merge", "branch.*.rebase", "branch.*.pushremote", "branch.*.description"),
    *("branch.autosetupmerge", "branch.autosetuprebase", "branch.sort", "user.name", "user.email"),
    *("remote.*.url", "remote.*.pushurl", "remote.*.fetch", "remote.*.push", "remote.*.tagopt", "remote.*.prune"),
    *("remote.*.mirror", "remote.*.promisor", "remote.*.partialclonefilter", "remote.*.gh-resolved", "remote.pushdefault"),
    *("submodule.*.url", "submodule.*.active", "submodule.*.branch", "submodule.*.path", "submodule.*.update"),
    *("submodule.*.ignore", "submodule.*.fetchrecursesubmodules", "submodule.active", "submodule.recurse"),
    *("core.repositoryformatversion", "core.filemode", "core.bare", "core.logallrefupdates", "core.ignorecase"),
    *("core.symlinks", "core.precomposeunicode", "core.autocrlf", "core.eol", "core.safecrlf", "core.quotepath"),
    *("core.sparsecheckout", "core.sparsecheckoutcone", "core.abbrev", "core.commentchar", "core.worktree"),
    *("extensions.objectformat", "extensions.partialclone", "init.defaultbranch", "pull.rebase", "pull.ff", "push.default"),
    *("push.autosetupremote", "push.followtags", "fetch.prune", "fetch.prunetags", "merge.ff", "merge.conflictstyle"),
    *("merge.renames", "merge.renamelimit", "rebase.autostash", "rebase.autosquash", "rerere.enabled", "rerere.autoupdate"),
    *("diff.renames", "diff.renamelimit", "diff.algorithm", "diff.colormoved", "diff.submodule", "diff.mnemonicprefix"),
    *("commit.verbose", "commit.cleanup", "status.*", "color.*", "advice.*", "log.date", "tag.sort", "gc.auto", "i18n.*"),
)
"""Settings that run no program and do not redirect git. All others are refused, because each git version adds new ones."""

_ADDRESSES = (
    "remote.*.url",
    "remote.*.pushurl",
    "remote.pushdefault",
    "submodule.*.url",
    "branch.*.remote",
    "branch.*.pushremote",
)


class GitPlace(NamedTuple):
    """A git folder, the writable folder that contains it, and the path of the program git."""

    folder: str
    root: str
    git: str


def merge(ours: bytes, base: bytes, now: bytes, place: GitPlace) -> tuple[bytes, list[str]]:
    """Merge the harmless changes from ``base`` to ``now`` into ``ours``. Return the text and what was not merged.

    Nothing is merged if git cannot read ``base`` or ``now``, or cannot write the result, or if too many settings differ.
    """
    old, new = read(base, place.git), read(now, place.git)
    if new is None or old is None:
        return ours, ["all of it, because git can't read it"]
    changed = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    refused = [key for key in changed if not _is_harmless(key, new.get(key, []), place)]
    if not refused and ours == base:
        return now, []
    kept = [key for key in changed if key not in refused]
    if len(kept) > _MOST_KEYS:
        return ours, [*refused, f"{len(kept)} others (too many to compare one by one)"]
    text = _with(ours, {key: new.get(key, []) for key in kept}, place.git) if kept else ours
    return (ours, [*refused, *kept]) if text is None else (text, refused)


def _is_harmless(key: str, values: Sequence[str | None], place: GitPlace) -> bool:
    if not any(fnmatchcase(key, pattern) for pattern in _HARMLESS):
        return False
    if any(fnmatchcase(key, pattern) for pattern in _ADDRESSES):  # helper::address runs a program
        return not any("::" in (value or "") or (value or "").startswith("-") for value in values)
    if fnmatchcase(key, "submodule.*.update"):
        return not any((value or "").startswith("!") for value in values)
    if key == "core.worktree":
        # a folder of the project may become a link later, and only submodules need this setting
        found = [os.path.realpath(os.path.join(place.folder, value or "")) for value in values]  # noqa: PTH118 - strings
        return "/modules/" in place.folder and all(under(path, place.root) for path in found)
    return True


def read(text: bytes, git: str) -> dict[str, list[str | None]] | None:
    """Return the values of a configuration by key, as git reads it, or None if git cannot read it.

    A key without ``=`` has the value None.
    """
    if not text:
        return {}
    listed = _config(git, ["--file", "-", "--no-includes", "--list", "-z"], text)
    if listed is None:
        return None
    found: dict[str, list[str | None]] = {}
    for entry in listed.decode("utf-8", "surrogateescape").split("\0")[:-1]:
        key, has_value, value = entry.partition("\n")
        found.setdefault(key, []).append(value if has_value else None)
    return found


def _with(text: bytes, wanted: Mapping[str, Sequence[str | None]], git: str) -> bytes | None:
    """Return the text with these values, or None if git cannot write them or would change anything else."""
    before = read(text, git)
    with tempfile.TemporaryDirectory(prefix="toolcrib-git-") as folder:
        file = Path(folder, "config")
        file.write_bytes(text)
        for key, values in wanted.items():
            if before is not None and key in before and _config(git, ["--file", str(file), "--unset-all", key]) is None:
                return None
            added = [_config(git, ["--file", str(file), "--add", key, "true" if value is None else value]) for value in values]
            if None in added:
                return None
        made = file.read_bytes()
    after = read(made, git)
    if before is None or after is None:
        return None
    return made if {**before, **wanted} == {**after, **{key: [] for key in wanted if key not in after}} else None


def _config(git: str, args: Sequence[str], text: bytes = b"") -> bytes | None:
    """Return the output of ``git config``, or None if it fails. git reads no other configuration."""
    env = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": "/"}
    try:
        ran = subprocess.run(
            [git, "config", *args], input=text, cwd="/", env=env, capture_output=True, check=False, timeout=_LIMIT
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout if ran.returncode == 0 else None
