"""The room in a model's context, in words: what fills it, and how to go on where it is full."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import one_line, tame
from agent.cli.short_forms import ID_CHARS
from agent.context.window import BYTES_A_TOKEN, ContextUse, measure, tokens_of, used_now, window_of
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from pathlib import Path

    from agent.cli.conversation import Conversation
    from agent.cli.itemreader import ItemReader
    from agent.conversation.forking import Forked
    from agent.conversation.session import Session

_COMPRESS = "\n  /compress  its middle summarised"
_OFFER = """\
{full}. The session is kept. To go on:{compress}
  /fork [N]  a session with its end
  /new       an empty session
  /export    a file with all of it
  /model     a model that reads more"""
"""Lines of less than 40 columns: a narrow terminal would wrap them in the middle of a word."""


_NEAR = 0.85
"""Part of compression.threshold from which on a person is told that their session will be compressed."""


def offer(full: str, *, compress: bool = True) -> str:
    """Say what a person can do about a full context; ``compress``: it may be compressed."""
    return _OFFER.format(full=full, compress=_COMPRESS if compress else "")


async def room_left(session: Session, text: str = "") -> str | None:
    """Return what says that the context is full, with ``text`` that is about to be said; None where it is not, as far as is
    known, or the session makes room for the text by itself. Asks no server.
    """
    window, more = (await window_of(session)).tokens, tokens_of(text)
    if window is None or (text and session.config.compression.enabled and more < window // 2):
        return None
    used = await used_now(session)
    if used.tokens + more < window:
        return None
    about = "about " if used.counted is None or used.since or more else ""
    return f"the context is full: {about}{used.tokens + more:,} of {window:,} tokens"


async def soon_compressed(session: Session) -> str | None:
    """Return what says that the session is compressed before long; None where that is not near, or not known. Asks no server."""
    config, window = session.config.compression, session.link.window
    if window is None or not config.enabled or session.link.is_given:
        return None
    used = (await used_now(session)).tokens
    if used < window * config.threshold * _NEAR:
        return None
    begins = "with your next message" if used >= window * config.threshold else f"from {round(config.threshold * 100)} % on"
    return (
        f"the context is {used * 100 // window} % full; {begins} its middle is summarised. "
        "/compress WISH does it now and keeps what WISH names"
    )


def context_lines(used: ContextUse, model: str, reader: ItemReader | None) -> list[str]:
    """Return the answer of /context, in lines of less than 40 columns where nothing in them is long by itself."""
    width = max((len(part.name) for part in used.parts), default=0)
    digits = len(f"{used.estimated:,}")
    lines = [f"estimated, at {BYTES_A_TOKEN} bytes a token:"]
    for part in used.parts:
        counted = f"  {part.count:,}" if part.count > 1 or part.detail else ""
        detail = f": {one_line(part.detail, 200)}" if part.detail else ""
        lines.append(f"  {part.name:<{width}}  {part.tokens:>{digits},}{counted}{detail}")
    lines.append(f"  {'in all':<{width}}  {used.estimated:>{digits},}")
    lines += _counted(used, model)
    if used.largest:
        lines.append("largest results:")
    for one in used.largest:
        number = None if reader is None else reader.number_of(one.call_id)
        shown = f"  #{number}" if number is not None else ""
        lines.append(f"  {one_line(one.name, 30):<{width}}  {one.tokens:>{digits},}{shown}")
    return lines


def _counted(used: ContextUse, model: str) -> list[str]:
    if not model:
        return ["no model is connected: none of it is sent"]
    lines = [f"the server's last count: {'none yet' if used.counted is None else f'{used.counted:,}'}"]
    lines += [f"estimated since then: {used.since:,}"] if used.since else []
    window = used.window
    if window.tokens is None:
        return [*lines, "window: not known; to set it:", "  model.context_window"]
    lines += [f"window: {window.tokens:,} ({window.source})", f"used: {used.tokens * 100 // window.tokens} %"]
    return [*lines, *(offer("The context is full").splitlines() if used.is_full else ())]


async def show_context(chat: Conversation, rest: str) -> None:
    """Show what fills the context; the server may be asked how much its model reads."""
    used = await measure(chat.session, asks=True)
    chat.screen.text("\n".join(context_lines(used, chat.model, chat.reader)))


async def compress_chat(chat: Conversation, wish: str) -> None:
    """Have the middle of the session summarised now; the summary keeps what ``wish`` names. Raises ToolcribError."""
    from agent.conversation.room import compress_now

    chat.screen.note("a model summarises the session; Ctrl-C ends that, and all stays as it was")
    chat.show(await compress_now(chat.session, wish, chat.show))


async def fork_chat(chat: Conversation, count: str) -> None:
    """Go on in a session that takes over the last ``count`` messages, "" for what fits. Raises ToolcribError."""
    from agent.cli.delegating import may_end
    from agent.conversation.forking import fork

    if count and (not count.isdecimal() or not int(count)):
        raise ToolcribError("write /fork, or /fork N: a new session with your last N messages and what followed them")
    info = await chat.session.info()
    if info is None or not info.messages:
        raise ToolcribError("nothing was said yet; /new begins another session")
    if not await may_end(chat, "going on in the fork"):
        return
    window = await window_of(chat.session)
    made = await fork(chat.session.store, info, int(count) if count else None, window=window.tokens)
    await chat.open(resume=made.id, mode=chat.session.mode.now, choice=chat.choice)
    for line in _forked(made, info.id):
        chat.screen.note(line)


def _forked(made: Forked, parent: str) -> Sequence[str]:
    """Say what a fork took over, and what it left behind."""
    said = f"your last {made.messages} messages" if made.messages != 1 else "your last message"
    lines = [
        f"a new session, {made.id[:ID_CHARS]}, with {said} and what followed; the old one is kept: /resume {parent[:ID_CHARS]}",
        "grants and what /undo knows stay with the old one",
    ]
    if made.dropped:
        lines.append(f"{made.dropped} replies, results or calls of it did not fit or never ended, and are in the old one alone")
    if made.unanswered:
        lines.append(f"not answered, and left out; say it again: {one_line(made.unanswered, 300)}")
    return lines


async def export_chat(chat: Conversation, rest: str) -> None:
    """Write the session into a file, by default of this folder; ``--force`` beside the name writes over one that is there."""
    from agent.artifacts import artifacts_of
    from agent.exporting import export, form_of, write

    info = await chat.session.info()
    if info is None or not info.messages:
        raise ToolcribError("nothing was said yet")
    named = f" {rest} ".replace(" --force ", " ", 1).strip()
    path = _whole(named or f"session-{info.id[:12]}.md")
    artifacts = await artifacts_of(chat.session.store, info.id)
    write(path, export(info, await chat.session.records(), form_of(path), artifacts), force=named != rest)
    chat.screen.note(f"{tame(str(path))}: written")


def _whole(name: str) -> Path:
    """Return the whole path, which tells a person where the file is."""
    from pathlib import Path

    return Path(name).expanduser().absolute()


async def title_chat(chat: Conversation, rest: str) -> None:
    """Name the session, or tell its title and tags. Raises ToolcribError."""
    from agent.cli.labels import rename
    from agent.cli.session_format import marks_of

    info = await chat.session.info()
    if rest:
        refuse_below_session(chat, "naming a session")
        session = chat.session
        title = await chat.writing(lambda: rename(session.store.sessions, session.id, rest))
        chat.screen.note(f"this session is called: {tame(title)}")
    elif info is None or not (info.title or info.tags):
        raise ToolcribError("it has no title yet; /title TEXT names this session")
    else:
        chat.screen.note(f"{tame(info.title)}{marks_of(info.tags)}; /title TEXT names it anew")


async def show_sessions(chat: Conversation, rest: str) -> None:
    """List the last sessions. Raises Denied below a session: what was said in others is for a person."""
    import time

    from agent.cli.render import table
    from agent.cli.session_format import SPARE, persons_sessions, session_rows

    refuse_below_session(chat, "looking into stored sessions")
    found = await persons_sessions(chat.opening.crib.store, 10)
    if found:
        table(session_rows(found, time.time()), spare=SPARE, width=chat.screen.width, below=True)
    chat.screen.note("type /resume ID to continue one" if found else "nothing was said in any session yet")


def refuse_below_session(chat: Conversation, what: str) -> None:
    """Raise Denied where the chat runs below a command of a session."""
    from agent.policy.self_protection import folders_of, refuse_below

    refuse_below(folders_of(chat.opening.crib.config), what)


COMMANDS: Mapping[str, Callable[[Conversation, str], Awaitable[None]]] = {
    "/fork": fork_chat,
    "/compress": compress_chat,
    "/context": show_context,
    "/title": title_chat,
    "/sessions": show_sessions,
}
