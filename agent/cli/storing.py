"""The store in `toolcrib doctor`: check all its files, and repair them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.app import FAILED, OK
from agent.cli.escape import one_line
from agent.cli.finding import CheckFinding, Repair
from toolcrib.contract.errors import StoreFailed, ToolcribError

if TYPE_CHECKING:
    from agent.config import Config
    from agent.store._merging import Restored, Source
    from agent.store.repair import Repaired

_REPAIR = "end the processes that use it, then run `toolcrib doctor --repair-store`"
_OTHER = "follow the message; until then no session can be opened"
_NAMES = {
    "steps": "undo step*",
    "audit": "decision*",
    "origins": "file origin*",
    "inbox": "taken message*",
    "mail": "arrived message*",
    "posts": "sent message*",
    "chat_sessions": "session* of chats",
}
"""Names of rows if they differ from the table's name; ``*`` becomes an s in the plural."""
_SHOWN = 50
"""Maximum number of conversations that a repair lists for each source."""


def check_files(config: Config) -> Iterator[CheckFinding]:
    """Check every page of the session file and of the files beside it: artifacts, the search index, old contents of files.

    Nothing is written.
    """
    from agent.api import is_frozen
    from agent.store._backup import Backups
    from agent.store._damage import StoreDamaged, fault_of_backup
    from agent.store._file import unwritable
    from agent.store._placing import real

    if not config.store.enabled or config.store_url is not None:
        return
    for path, look, mend in _parts(config):
        try:
            found = look()
        except StoreDamaged as error:
            yield _damaged(config, path, mend, error)
        except StoreFailed as error:
            yield CheckFinding("store.unreadable", "wrong", str(error), _OTHER)
        else:
            if path == config.store_path and path.exists():
                faults = {copy: fault_of_backup(copy) for copy in Backups(real(path)).found()}
                copies = [copy for copy, fault in faults.items() if not fault]
                kept = f"backup of {_time(copies[0].stat().st_mtime)}" if copies else _no_backup(path)
                yield CheckFinding("store.sound", "ok", f"store {path}, {kept}")
                if is_frozen(path):
                    yield CheckFinding("store.read-only", "wrong", str(unwritable(real(path))), _OTHER)
                for copy in faults.keys() - set(copies):
                    fix = "remove it; another backup is made while the store is used"
                    yield CheckFinding("store.backup-damaged", "wrong", f"{copy} is no usable backup: {faults[copy]}", fix)
            elif found:  # a missing artifact is no damage: reading it reports the loss
                gone = _told([(int(found), "large result*")])
                yield CheckFinding(
                    "store.artifacts-lost", "note", f"{gone} of sessions cannot be read: their content is missing in {path}"
                )


def _no_backup(path: Path) -> str:
    from agent.store._backup import LARGEST

    return f"no backup: it is larger than {LARGEST >> 20} MiB" if path.stat().st_size > LARGEST else "no backup yet"


def _damaged(config: Config, path: Path, mend: partial[Iterator[str]], error: StoreFailed) -> CheckFinding:
    from agent.store._backup import Backups
    from agent.store._damage import fault_of_backup
    from agent.store._placing import real

    again = partial(check_files, config)
    if mend.func is _index_lines:
        repair = Repair(f"rm {path}", mend, again)
        return CheckFinding("store.index-damaged", "note", str(error), "nothing to do: the next search rebuilds it", repair)
    name, loses = _LOSES[mend.func]
    if mend.func is _store_lines:
        copies = [copy for copy in Backups(real(path)).found() if not fault_of_backup(copy)]
        lost = "data that cannot be read is lost, since there is no backup"
        if copies:
            lost = f"messages since the backup of {_time(copies[0].stat().st_mtime)} are lost if they cannot be read"
        loses = f"{lost}, {loses}"
    repair = Repair(f"toolcrib doctor --repair-store (of {path})", mend, again, f"{loses}; the damaged file is kept beside it")
    return CheckFinding(name, "wrong", str(error), _REPAIR, repair)


def kept_damaged(config: Config) -> list[str]:
    """Return the damaged files that repairs kept beside the store."""
    from agent.store._placing import kept_files, real

    if not config.store.enabled or config.store_url is not None:
        return []
    return [str(path) for path in kept_files(real(config.store_path))]


def repair_store(config: Config, *, agreed: bool) -> int:
    """Repair damaged files after the user agrees. Return the exit code. Raises ToolcribError."""
    from agent.store._damage import StoreDamaged

    if not config.store.enabled:
        raise ToolcribError("nothing to repair: no store is used (store.enabled is false)")
    if config.store_url is not None:
        raise ToolcribError("the store is on a PostgreSQL server; its own tools check, back up and restore it")
    sound = True
    for path, look, mend in _parts(config):
        try:
            look()
        except StoreDamaged as error:
            sound = False
            print(error)
            if not agreed and not _agreed(path):
                print("nothing was changed")
                return FAILED
            lines = list(mend())
            print("\n".join(lines or [f"no damage found: another process has repaired {path}"]))
    if sound:
        print(f"no damage found, nothing was changed: {config.store_path}")
    return OK


def _parts(config: Config) -> Iterator[tuple[Path, Callable[[], int | None], partial[Iterator[str]]]]:
    """Yield each file of the store with its check and its repair. The repair yields lines about its actions, none for a sound
    file.

    The session file comes first, because it records which artifacts are in use.
    """
    from agent.api import evidence_of
    from agent.config import contents_path
    from agent.store._artifact_repair import examine_artifacts
    from agent.store._artifacts import path_of
    from agent.store._placing import index_of, real
    from agent.store.repair import examine

    store, evidence, contents = config.store_path, evidence_of(config), contents_path()
    try:
        where = real(store)
    except OSError:  # an unreadable folder, which the checks of the store report
        where = store
    artifacts, index = path_of(where), index_of(where)
    yield store, partial(examine, store, evidence), partial(_store_lines, store, evidence)
    yield artifacts, partial(examine_artifacts, artifacts, where), partial(_artifact_lines, artifacts, where)
    yield index, partial(examine, index), partial(_index_lines, index)
    yield contents, partial(examine, contents), partial(_contents_lines, contents)


def _store_lines(path: Path, evidence: Sequence[Path]) -> Iterator[str]:
    from agent.store.repair import repair

    done = repair(path, evidence)
    if done is not None:
        yield from _lines(done)


def _artifact_lines(path: Path, store: Path) -> Iterator[str]:
    from agent.store._artifact_repair import repair_artifacts

    done = repair_artifacts(path, store)
    if done is not None:
        yield f"repaired {path} from its intact parts and its backup"
        yield f"  saved: {_told([(done.saved, 'artifact*')]) or 'nothing'}"
        if done.lost:
            yield f"  lost: {_told([(done.lost, 'artifact*')])} of sessions; reading one reports the loss"
        yield f"  the damaged file is kept: {done.kept}"


def _index_lines(path: Path) -> Iterator[str]:
    from agent.store.repair import forget_index

    if forget_index(path):
        yield f"removed {path}, which has no data of its own: the next search rebuilds it"


def _contents_lines(path: Path) -> Iterator[str]:
    from agent.store.repair import forget_contents

    kept = forget_contents(path)
    if kept is not None:
        yield f"undo data is lost; the damaged file is kept: {kept}"


_LOSES: Mapping[Callable[..., Iterator[str]], tuple[str, str]] = {
    _store_lines: ("store.damaged", "unfinished runs are ended, and grants are removed"),
    _artifact_lines: ("store.artifacts-damaged", "large results that cannot be read are lost"),
    _contents_lines: ("store.undo-damaged", "undo data is lost"),
}
"""Repair -> the id of its finding, and what the repair loses."""


def _agreed(path: Path) -> bool:
    from agent.cli.terminal import confirm_by_word, is_interactive

    question = f"Repair {path} now? The damaged file is kept beside it."
    if not is_interactive():
        raise ToolcribError(f"{question} No user can be asked here: add --yes")
    return confirm_by_word(question)


def _lines(done: Repaired) -> Iterator[str]:
    """Yield lines about what was restored, from when, and what was lost."""
    yield _origin(done)
    yield from _sources(done.restored)
    yield f"  saved: {_counts(done) or 'nothing: no data could be read, and there is no backup'}"
    mended = done.mended
    if lost := _told([(done.unreadable, "row* that could not be read"), (mended.messages, "message*")]):
        yield f"  lost: {lost}"
    if done.cut:
        since = "" if done.backup is None else f" since {_time(done.backup)}"
        tables = ", ".join(_name(table).replace("*", "s") for table in done.cut)
        yield f"  lost{since}, except readable parts: {tables}"
    ended = [
        (mended.runs, "unfinished run*"),
        (mended.calls, "running call*, which may have run"),
        (mended.tickets, "pending request*"),
        (mended.waiting, "queued message*"),
        (mended.posts, "message* of the gateway that may have been sent"),
        (mended.grants, "grant*"),
    ]
    if told := _told(ended):
        yield f"  ended, so that nothing runs or counts twice: {told}"
    yield f"  the damaged file is kept: {done.kept}"


def _origin(done: Repaired) -> str:
    if done.is_finished_only:
        return (
            f"finished the repair of {done.path}; its losses are unknown, since the first process ended before it reported them"
        )
    if done.backup is None:
        return f"repaired {done.path} from its readable parts"
    made = _time(done.backup)
    if all(one.source == "copy" for one in done.restored):
        return f"repaired {done.path} from its backup of {made}; later data is lost"
    return f"repaired {done.path} from its readable parts and its backup of {made}"


def _sources(restored: Sequence[Restored]) -> Iterator[str]:
    """Yield lines about the conversations restored from each source. A conversation that is the same in both is not listed."""
    sources: Sequence[tuple[Source, str]] = (
        ("file", "from the damaged file, with more than the backup"),
        ("copy", "from the backup; their later messages are lost"),
    )
    for source, words in sources:
        found = [one for one in restored if one.source == source]
        if found:
            yield f"  {words}: {_told([(len(found), 'conversation*')])}"
        for one in found[:_SHOWN]:
            yield f"    {one.id[:12]} {one_line(one.title, 60)} ({_told([(one.messages, 'message*')]) or 'no messages'})"
        if len(found) > _SHOWN:
            yield f"    and {len(found) - _SHOWN} more, used earlier"


def _counts(done: Repaired) -> str:
    return _told([(number, _name(table)) for table, number in done.saved.items()])


def _name(table: str) -> str:
    return _NAMES.get(table, f"{table.removesuffix('s')}*")


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))


def _told(numbers: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{number} {what.replace('*', '' if number == 1 else 's')}" for number, what in numbers if number)
