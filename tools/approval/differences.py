"""Compute the differences that a call would make in files, without writing, so that a user can read them first."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import DeletesFile, Effect, WritesFile
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from tools.files.differing import NOWHERE, unified

MOST_CHARS = 400_000
"""Maximum characters of a file's old and new content together for a comparison."""


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences of a call. ``text``: a unified diff of all files. ``stands_for``: arguments that the diff makes redundant.

    ``digests``: digests of the files' contents by path. The user's answer is bound to them, because it is about these
    differences.
    """

    text: str
    stands_for: frozenset[str]
    digests: Mapping[str, str]


async def differences(
    entry: ToolEntry, effects: Sequence[Effect], environment: Environment, redact: Callable[[str], str]
) -> Differences | None:
    """Return the changes that the call of this tool would make in existing files.

    Return None if the call only creates files or has another effect, if a file cannot be compared (too long, not text, new
    content unknown), or if the call's new text contains a secret: the call is then shown as it is.
    """
    texts, digests, is_new = [], {}, True
    if not effects:
        return None
    for effect in effects:
        if not isinstance(effect, WritesFile | DeletesFile):
            return None
        new = "" if isinstance(effect, DeletesFile) else effect.content
        old = await _held(environment, effect.path)
        if new is None or old is None or len(old) + len(new) > MOST_CHARS:
            return None
        digest = hashlib.sha256(old.encode("utf-8", "surrogatepass")).hexdigest()
        digests[f"difference:{effect.path}"] = digest
        is_new = is_new and not old
        texts.append(unified(old, new, effect.path if old else NOWHERE, effect.path if new else NOWHERE))
    text = "".join(texts)
    shown = redact(text)
    if is_new or _added(shown) != _added(text):
        return None
    stands_for = entry.display.in_difference if entry.is_built_in else ()
    return Differences(shown, frozenset(stands_for), digests)


async def _held(environment: Environment, path: str) -> str | None:
    """Return the text of a file, "" if it does not exist, None if it cannot be read as text."""
    try:
        data = await environment.read_file(path, limit=4 * MOST_CHARS + 4)
    except FileNotFoundError:
        return ""
    except (OSError, EnvironmentFailed):
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _added(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("+")]
