"""Labels of a session for the user: its title and its tags."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agent.cli.app import OK
from agent.cli.escape import tame
from agent.cli.session_format import marks_of
from agent.cli.short_forms import ID_CHARS
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    import argparse

    from agent.process import Crib
    from toolcrib.contract.store import SessionInfo, SessionStore

_TAG = Regex(r"\w[\w./:-]{0,63}")
_TITLE_CHARS = 200
_MOST_TAGS = 30


def title_from(words: str) -> str:
    """Return a title on one line. Raises ToolcribError if it is empty or too long."""
    title = " ".join(words.split())
    if not title or not any(char.isprintable() and not char.isspace() for char in title):
        raise ToolcribError("give a title: a few words about the session")
    if len(title) > _TITLE_CHARS:
        raise ToolcribError(f"a title has at most {_TITLE_CHARS} characters, this one has {len(title)}")
    return title


def tag_from(word: str) -> str:
    """Return a tag as it is stored, without the # that lists show. Raises ToolcribError if it is not a valid tag."""
    word = word.removeprefix("#")
    if not _TAG.fullmatch(word):
        raise ToolcribError(
            f"{tame(word)!r} is not a valid tag: use at most 64 letters, digits and . _ / : - such as web or release/1.2"
        )
    return word


def changed_tags(tags: Sequence[str], words: Iterable[str]) -> list[str]:
    """Return the tags after adding ``+a`` or ``a`` and removing ``-b``. Raises ToolcribError."""
    kept = list(tags)
    for word in words:
        tag = tag_from(word.removeprefix("+") if word[:1] == "+" else word.removeprefix("-"))
        if word[:1] != "-":
            kept += [] if tag in kept else [tag]
        elif tag not in kept:
            raise ToolcribError(f"the session has no tag {tag!r}; its tags: {', '.join(map(tame, tags)) or 'none'}")
        else:
            kept.remove(tag)
    if len(kept) > _MOST_TAGS:
        raise ToolcribError(f"a session has at most {_MOST_TAGS} tags")
    return kept


async def rename(sessions: SessionStore, session_id: str, words: str) -> str:
    """Set the title of a session, and return it. Raises ToolcribError and StoreFailed."""
    title = title_from(words)
    await sessions.label(session_id, title=title)
    return title


async def rename_stored(crib: Crib, args: argparse.Namespace) -> int:
    """Set the title of the session that the command line names. Return the exit code. Raises ToolcribError and StoreFailed."""
    if not args.id or not args.words:
        raise ToolcribError("give the id and the title: toolcrib sessions rename ID TITLE")
    info = await crib.find_session(args.id)
    title = await rename(crib.store.sessions, info.id, " ".join(args.words))
    _tell(args, info, title, info.tags)
    return OK


async def tag_stored(crib: Crib, args: argparse.Namespace) -> int:
    """Change the tags of the session that the command line names. Return the exit code. Raises ToolcribError and StoreFailed."""
    words = [*args.words, *(f"-{tag}" for tag in args.without)]
    if not args.id or not words:
        raise ToolcribError("give the id and the tags: toolcrib sessions tag ID +this -that")
    info = await crib.find_session(args.id)
    tags = changed_tags(info.tags, words)
    await crib.store.sessions.label(info.id, tags=tags)
    _tell(args, info, info.title, tags)
    return OK


def _tell(args: argparse.Namespace, info: SessionInfo, title: str, tags: Sequence[str]) -> None:
    if args.json:
        print(json.dumps({"id": info.id, "title": title, "tags": list(tags)}, ensure_ascii=False))
    else:
        print(f"{info.id[:ID_CHARS]}  {tame(title)}{marks_of(tags)}")
