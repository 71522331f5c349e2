"""``toolcrib sessions search``: print the messages and artifacts found."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from agent.artifacts import search_artifacts
from agent.cli.artifacts import hit_json, hit_lines, unread_words
from agent.cli.escape import one_line, tame
from agent.cli.short_forms import ID_CHARS, ago
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.search import SearchFilter, SearchHit

if TYPE_CHECKING:
    from agent.process import Crib

_BOLD, _PLAIN = "\x1b[1m", "\x1b[22m"


async def search(crib: Crib, args: argparse.Namespace) -> bool:
    """Print the messages and artifacts that contain all words; return whether there are any. Raises ToolcribError if no word to
    find is given, and StoreFailed.
    """
    words = [args.id, *args.words, *(f"-{word}" for word in args.without)]
    query = " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in words).strip()
    if not query:
        raise ToolcribError("give the words: toolcrib sessions search WORD ...")
    if not args.id and not args.words:
        raise ToolcribError(f"{query} only excludes words; add a word to find: toolcrib sessions search WORD {query}")
    where = SearchFilter(
        cwd=str(crib.project_dir) if args.here else None,
        tags=args.tag,
        since=None if args.newer_than is None else time.time() - args.newer_than,
    )
    hits = await crib.store.search.find(query, where, order="best" if args.best else "newest", limit=args.limit)
    kept = await search_artifacts(crib.store, query, where, args.limit)
    if args.json:
        found = [*(asdict(hit) for hit in hits), *map(hit_json, kept.hits)]
        print(json.dumps(found, ensure_ascii=False, indent=2))
    elif hits or kept.hits:
        print("\n".join([*_lines(hits), *hit_lines(kept.hits, bold=_bold())]))
    else:
        print("nothing found")
    if kept.unread:
        print(unread_words(kept.unread), file=sys.stderr)
    return bool(hits or kept.hits)


def _lines(hits: Sequence[SearchHit]) -> Iterator[str]:
    """Yield a line for each session, and below it lines for its hits."""
    bold = _bold()
    now, last = time.time(), ""
    for hit in hits:
        if hit.session_id != last:
            last = hit.session_id
            yield f"{tame(last[:ID_CHARS])}  {ago(hit.at, now)}  {one_line(hit.title, 80)}"
        who = hit.source or hit.role
        shown = _marked(hit.snippet, hit.marks) if bold else tame(hit.snippet)
        yield f"  message {hit.seq}, {_ROLES.get(who, who)}: {shown}"


_ROLES = {"user": "you", "assistant": "model", "results": "tool"}


def _bold() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _marked(text: str, marks: Sequence[tuple[int, int]]) -> str:
    """Return the text with the hits in bold."""
    parts, at = [], 0
    for start, end in marks:
        parts += [tame(text[at:start]), _BOLD, tame(text[start:end]), _PLAIN]
        at = end
    return "".join([*parts, tame(text[at:])])
