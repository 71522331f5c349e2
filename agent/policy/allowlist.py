"""Permanent grants: ``always`` answers, stored in command_allowlist of config.yaml (003-27).

A local shell has the user's rights, so the file alone does not prove the user's approval. The state folder has the digests of the
entries that an ``always`` answer wrote, or that the user confirmed. An entry without a digest there is shown, and doesn't count
until it is confirmed.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config import (
    AllowlistEntry,
    Config,
    config_path,
    load_config,
    locked,
    state_dir,
    write_private,
)
from agent.policy.self_protection import refuse_below
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.paths import real_path
from toolcrib.contract.store import Grant, GrantStore

_log = logging.getLogger(__name__)
STATE_FILE = "allowlist.json"


@dataclass(frozen=True, slots=True)
class EntryFault:
    """An entry of command_allowlist that can never count, and the reason."""

    entry: AllowlistEntry
    reason: str


def entry_faults(config: Config, project_root: str) -> list[EntryFault]:
    """Return the entries of command_allowlist that can never count below the folder ``project_root``."""
    found = []
    for entry in config.command_allowlist:
        try:
            _to_grant(_bound(entry, project_root))
        except Exception as error:  # noqa: BLE001 - with any fault the entry doesn't count
            found.append(EntryFault(entry, str(error)))
    return found


class PermanentGrants:
    """A GrantStore whose ``always`` grants of the local user outlive the store; ``inner`` has all others. Thread-safe.

    It reads the file once, when created; grants that another process revokes later stop counting here, too. Raises ConfigError if
    the file can't be trusted, also in ``add`` and ``revoke``: a grant that can't be written is not given. If the state folder
    can't be written, no entry of the file counts, and ``problem`` is the error.
    """

    def __init__(
        self,
        inner: GrantStore,
        path: str | Path | None = None,
        state: str | Path | None = None,
        *,
        project_root: str = "",
        instead: bytes | None = None,
        like: PermanentGrants | None = None,
    ) -> None:
        """Read the grants.

        ``project_root`` is the folder that entries of plain text are bound to; "" for none. ``instead`` is read instead of the
        file. ``like`` has the grants of another folder from the same file. Its known entries are used here too, and unchanged
        ones are not reported again.
        """
        self._root = str(Path(project_root).absolute()) if project_root else ""
        self._inner = inner
        self._path = config_path(path)
        self._known = _KnownEntries(state_dir(state) / STATE_FILE, self._path)
        if like is not None and (like._path, like._known.file) == (self._path, self._known.file):
            self._known = like._known
        self._lock = threading.RLock()
        """Lock that is held only briefly, and never while waiting for a file's lock, which may take seconds."""
        self._permanent: dict[str, tuple[Grant, AllowlistEntry]] = {}
        self._stamp: object = "never looked"
        self._unconfirmed: list[AllowlistEntry] = []
        self.faults: list[EntryFault] = []
        self.problem: ConfigError | None = None
        self._load(instead)

    def _load(self, instead: bytes | None) -> None:
        config = load_config(self._path, instead=instead)
        entries = [_bound(entry, self._root) for entry in dict.fromkeys(config.command_allowlist)]
        try:
            known, is_news = self._known.keep_only(frozenset(_digest(entry).partition("@")[0] for entry in entries))
        except ConfigError as error:  # deleted entries could return unnoticed
            self.problem = error
            return
        for entry in entries:
            try:
                grant = _to_grant(entry)
            except Exception as error:  # noqa: BLE001 - with any fault the entry doesn't count
                self.faults.append(EntryFault(entry, str(error)))
                if is_news:
                    _log.error("%s: command_allowlist: %r is ignored: %s", self._path, entry.shown, error)
                continue
            if _digest(entry) in known:
                self._permanent[grant.id] = (grant, entry)
            else:
                self._unconfirmed.append(entry)
                if entry.text is not None and is_news:
                    _log.warning("%s: command_allowlist: %r is plain text, read as %s", self._path, entry.text, covered(grant))
        if self._unconfirmed and is_news:
            number = len(self._unconfirmed)
            many = "1 entry of command_allowlist awaits" if number == 1 else f"{number} entries of command_allowlist await"
            _log.warning("%s: %s your confirmation; `toolcrib chat` asks", self._path, many)

    # -- confirmation by the user --------------------------------------------------------------------------------

    def unconfirmed(self) -> list[AllowlistEntry]:
        """Return the entries that no command of the user wrote. They don't count until the user sees and confirms them."""
        with self._lock:
            return list(self._unconfirmed)

    def describe(self, entry: AllowlistEntry) -> str:
        """Return a description of an entry's coverage."""
        return covered(_to_grant(entry))

    def confirm(self) -> None:
        """Mark exactly the entries of ``unconfirmed`` as confirmed, after the user has seen and confirmed them.

        Raises ConfigError.
        """
        confirmed = self.unconfirmed()
        self._known.add(_digest(entry) for entry in confirmed)
        with self._lock:
            for entry in confirmed:
                grant = _to_grant(entry)
                self._permanent[grant.id] = (grant, entry)
            self._unconfirmed = [entry for entry in self._unconfirmed if entry not in confirmed]

    # -- GrantStore ----------------------------------------------------------------------------------------------

    async def add(self, grant: Grant) -> None:
        """Store a grant. An ``always`` grant is first written to the file; if that fails, the grant does not count."""
        if grant.scope != "always" or grant.principal:
            await self._inner.add(grant)
            return
        entry = _to_entry(grant)
        kept = _to_grant(entry)  # the next session must be able to read it
        await _off_loop(lambda: self._write(entry))
        with self._lock:
            self._unconfirmed = [other for other in self._unconfirmed if other != entry]
            self._permanent[grant.id] = (grant, entry)
        _log.debug("always: %s below %s", kept.argv, kept.root)

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        """Return the grants. Raises ConfigError if another process's change can't be read."""
        own = self.permanent() if session_id is None or not principal else ()
        return [*own, *await self._inner.all(session_id, principal)]

    def permanent(self) -> Sequence[Grant]:
        """Return the grants of the file alone. Raises what ``all`` raises."""
        with self._lock:
            if self._permanent:
                self._drop_revoked()
            return [grant for grant, _entry in self._permanent.values()]

    def _drop_revoked(self) -> None:
        stamp = self._known.stamp()
        if stamp == self._stamp:
            return
        known = self._known.read()
        self._permanent = {key: kept for key, kept in self._permanent.items() if _digest(kept[1]) in known}
        self._stamp = stamp

    async def spend(self, grant_id: str) -> bool:
        """Use a counted grant once. Return False for a permanent grant, which isn't counted."""
        return await self._inner.spend(grant_id)

    async def revoke(self, grant_id: str) -> bool:
        """Revoke a grant. A permanent one is also removed from the file, and stops counting even if the file can't be written."""
        with self._lock:
            found = self._permanent.pop(grant_id, None)
            if found is not None:
                for key in [key for key, (_grant, other) in self._permanent.items() if other == found[1]]:
                    del self._permanent[key]
        if found is None:
            return await self._inner.revoke(grant_id)
        await _off_loop(lambda: self._erase(found[1]))
        return True

    def _write(self, entry: AllowlistEntry) -> None:
        from agent.config import append_allowlist

        append_allowlist(self._path, entry)
        self._known.add([_digest(entry)])

    def _erase(self, entry: AllowlistEntry) -> None:
        from agent.config import remove_allowlist

        self._known.discard(_digest(entry))
        remove_allowlist(self._path, _bound(entry, ""))


async def _off_loop(work: Callable[[], None]) -> None:
    """Run ``work``, in a thread if an event loop runs, because it may wait for another process's lock of the file."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        work()
    else:
        await asyncio.to_thread(work)


class _KnownEntries:
    """The digests of confirmed entries, by configuration file, in one private file of the state folder."""

    def __init__(self, file: Path, config: Path) -> None:
        self.file = file
        self._config = str(real_path(config))
        self._kept: tuple[object, frozenset[str], frozenset[str]] | None = None
        """The stamp, the present entries and the known ones among them, at the last check."""

    def stamp(self) -> object:
        """Return a stamp that changes whenever the file is written; None if there is no file."""
        try:
            about = self.file.stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns, about.st_size

    def read(self) -> frozenset[str]:
        return frozenset(self._read().get(self._config, []))

    def keep_only(self, present: frozenset[str]) -> tuple[frozenset[str], bool]:
        """Return the known entries among ``present``, and whether they changed since the last check.

        Entries that are not in ``present`` are forgotten, so that a deleted entry can't return unnoticed.
        """
        stamp = self.stamp()
        if self._kept is not None and self._kept[:2] == (stamp, present):
            return self._kept[2], False
        if not present and stamp is None:
            known = frozenset[str]()
        else:
            known = self._change(lambda known: {one for one in known if one.partition("@")[0] in present})
        self._kept = (stamp, present, known)
        return known, True

    def add(self, digests: Any) -> None:
        refuse_below([self.file.parent, Path(self._config).parent], "a grant for always")
        new = set(digests)
        self._change(lambda known: known | new)

    def discard(self, digest: str) -> None:
        self._change(lambda known: known - {digest})

    def _change(self, change: Any) -> frozenset[str]:
        with locked(self.file):
            files = self._read()
            before = set(files.get(self._config, []))
            after = change(before)
            if after != before:
                files[self._config] = sorted(after)
                write_private(self.file, json.dumps({"version": 1, "files": files}, indent=1) + "\n")
            return frozenset(after)

    def _read(self) -> dict[str, list[str]]:
        try:
            data = json.loads(self.file.read_text("utf-8"))
            files = data["files"]
            if all(isinstance(digest, str) for digests in files.values() for digest in digests):
                return dict(files)
            raise ValueError("expected digests")
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise ConfigError(f"{self.file} can't be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.error("%s can't be read (%s); every permanent grant must be confirmed again", self.file, error)
            return {}


def _digest(entry: AllowlistEntry) -> str:
    if entry.text is not None:  # keep_only compares only the part before @, so other projects' digests stay
        return f"{_sha256(json.dumps(['text', entry.text]))}@{_sha256(entry.cwd)}"
    links = [list(entry.links)] if entry.links else []
    return _sha256(json.dumps([entry.version, entry.cwd, list(entry.argv), *links]))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _to_grant(entry: AllowlistEntry) -> Grant:
    from tools.approval.grants import from_allowlist

    if entry.text is not None:
        return from_allowlist(entry.text, entry.cwd)
    links = {"links": list(entry.links)} if entry.links else {}
    return from_allowlist({"argv": list(entry.argv), "cwd": entry.cwd, "version": entry.version, **links})


def _bound(entry: AllowlistEntry, root: str) -> AllowlistEntry:
    """Return an entry of plain text bound to the folder ``root``, "" for none, as in the file. Other entries stay unchanged."""
    return replace(entry, cwd=root) if entry.text is not None else entry


def covered(grant: Grant) -> str:
    """Return a description of a permanent grant's coverage."""
    if grant.argv:
        return f"`{' '.join(grant.argv)}` in {grant.root}"
    return f"everything that matches {grant.key.partition('@')[2]!r}, below {grant.root}"


def _to_entry(grant: Grant) -> AllowlistEntry:
    from tools.approval.grants import to_allowlist

    data = to_allowlist(grant)
    return AllowlistEntry(tuple(data["argv"]), data["cwd"], data["version"], tuple(data.get("links", ())))


if TYPE_CHECKING:

    def _conforms(grants: PermanentGrants) -> GrantStore:
        return grants
