"""Large results as a session's artifacts: stored with the session by digest, and read like files."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.contract.artifacts import MOST_BYTES, PREFIX
from toolcrib.contract.artifacts import name_of as named
from toolcrib.contract.errors import LeaseLost, NotFound, StoreFailed
from tools.clip import spill_to

if TYPE_CHECKING:
    from tools.dispatch.scope import CallScope

_log = logging.getLogger(__name__)
_FILE = "artifact-{}.txt"


async def keep_text(scope: CallScope, text: str, call_id: str) -> str:
    """Store the full text of a clipped result, and return a note about its location. Raises LeaseLost.

    If the store is not writable, the full text is lost, but not the clipped result.
    """
    if scope.artifacts is None:
        return spill_to(lambda: scope.spill_dir, call_id)(text)
    try:
        return f"; the full text is {await keep(scope, text)}: read_file it in parts"
    except LeaseLost:
        raise
    except (StoreFailed, ValueError) as error:
        _log.warning("the full result of call %s could not be kept: %s", call_id, error)
        return f"; the full text could not be kept: {error}"


async def keep(scope: CallScope, whole: str | bytes) -> str:
    """Store data with known secrets removed, and return its name. Raises StoreFailed, and ValueError if it is too large."""
    data = _bare(scope, whole)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it is {len(data):,} bytes; an artifact may be at most {MOST_BYTES:,}")
    assert scope.artifacts is not None  # noqa: S101 - the callers checked
    digest = await scope.artifacts.put(scope.identity.session_id, data)
    return named(digest)


async def keep_file(scope: CallScope, path: Path) -> str:
    """Move a file of the spill folder to an artifact, and return the artifact's name; if that is not possible, the file's path.

    Raises LeaseLost.
    """
    try:
        if scope.artifacts is None or path.stat().st_size > MOST_BYTES:  # noqa: ASYNC240 - one local call
            return str(path)
        name = await keep(scope, await asyncio.to_thread(path.read_bytes))
        path.unlink()  # noqa: ASYNC240 - as above
    except LeaseLost:
        raise
    except (StoreFailed, OSError) as error:
        _log.warning("%s could not be stored and is lost when the process ends: %s", path, error)
        return str(path)
    return name


async def as_file(scope: CallScope, name: str) -> Path:
    """Return a file on this machine, in the spill folder, with an artifact's content. Raises NotFound and StoreFailed."""
    digits = name.removeprefix(PREFIX)
    if scope.artifacts is None or not digits or not digits.isalnum():
        raise NotFound(f"{name}: this session has no such artifact")
    path = scope.spill_dir / _FILE.format(digits)
    if path.exists():
        return path
    data = await scope.artifacts.get(scope.identity.session_id, digits)
    if data is None:
        raise NotFound(f"{name}: this session has no such artifact, or no longer has it; call its tool again")
    await asyncio.to_thread(_write, path, data)
    return path


def name_of(path: str) -> str:
    """Return the artifact's name for the path of a file that ``as_file`` made; any other path unchanged."""
    begin, end = _FILE.split("{}")
    file = os.path.basename(path)  # noqa: PTH119 - a path of any environment
    return f"{PREFIX}{file[len(begin) : -len(end)]}" if file.startswith(begin) and file.endswith(end) else path


def _bare(scope: CallScope, whole: str | bytes) -> bytes:
    text = whole if isinstance(whole, str) else whole.decode("utf-8", "surrogateescape")
    errors = "backslashreplace" if isinstance(whole, str) else "surrogateescape"
    if scope.redactor.touches(text):
        text = scope.redactor.text(text)
    elif isinstance(whole, bytes):
        return whole
    return text.encode("utf-8", errors)


def _write(path: Path, data: bytes) -> None:
    draft = path.with_name(f"{path.name}-{os.getpid()}-{id(data)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    draft.replace(path)
