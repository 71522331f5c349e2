"""Chat commands about sessions: context, fork, compression, title, export, and the list of sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import one_line, tame
from agent.cli.room import context_lines
from agent.cli.short_forms import ID_CHARS
from agent.context.window import measure, window_of
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import with_home

if TYPE_CHECKING:
    from pathlib import Path

    from agent.cli.conversation import Conversation
    from agent.conversation.forking import Forked


async def show_context(chat: Conversation, rest: str) -> None:
    """Show what fills the context. The server may be asked for the size of the model's window."""
    used = await measure(chat.session, asks=True)
    chat.screen.text("\n".join(context_lines(used, chat.model, chat.reader)))


async def compress_chat(chat: Conversation, wish: str) -> None:
    """Summarise the middle of the session now. The summary keeps what ``wish`` names. Raises ToolcribError."""
    from agent.conversation.room import compress_now

    chat.screen.print_note("a model is summarising the session; Ctrl-C cancels without a change")
    chat.show(await compress_now(chat.session, wish, chat.show))


async def fork_chat(chat: Conversation, count: str) -> None:
    """Continue in a new session with the last ``count`` messages, "" for as many as fit. Raises ToolcribError."""
    from agent.cli.delegating import may_end
    from agent.conversation.forking import fork

    if count and (not count.isdecimal() or not int(count)):
        raise ToolcribError("use /fork, or /fork N for a new session with your last N messages")
    info = await chat.session.info()
    if info is None or not info.messages:
        raise ToolcribError("this session has no messages yet; to start another: /new")
    if not await may_end(chat, "continuing in the fork"):
        return
    window = await window_of(chat.session)
    made = await fork(chat.session.store, info, int(count) if count else None, window=window.tokens)
    await chat.open(resume=made.id, mode=chat.session.mode.now, choice=chat.choice)
    for line in _forked(made, info.id):
        chat.screen.print_note(line)


def _forked(made: Forked, parent: str) -> Sequence[str]:
    """Return lines about a fork: the messages that it took over, and the content that only the old session has."""
    said = f"your last {made.messages} messages" if made.messages != 1 else "your last message"
    lines = [
        f"a new session, {made.id[:ID_CHARS]}, with {said}; to return to the old one: /resume {parent[:ID_CHARS]}",
        "grants and undo data stay with the old session",
    ]
    if made.dropped:
        lines.append(f"{made.dropped} replies, results or calls did not fit or never ended: only the old session has them")
    if made.unanswered:
        lines.append(f"unanswered, so left out; send it again: {one_line(made.unanswered, 300)}")
    return lines


async def export_chat(chat: Conversation, rest: str) -> None:
    """Write the session into a file, by default in this folder. ``--force`` in ``rest`` overwrites an existing file."""
    from agent.artifacts import artifacts_of
    from agent.exporting import export, form_of, write

    info = await chat.session.info()
    if info is None or not info.messages:
        raise ToolcribError("this session has no messages yet")
    named = f" {rest} ".replace(" --force ", " ", 1).strip()
    path = _whole(named or f"session-{info.id[:12]}.md")
    artifacts = await artifacts_of(chat.session.store, info.id)
    write(path, export(info, await chat.session.records(), form_of(path), artifacts), force=named != rest)
    chat.screen.print_note(f"wrote {tame(str(path))}")


def _whole(name: str) -> Path:
    """Return the absolute path, so that the user sees where the file is."""

    return with_home(name).absolute()


async def title_chat(chat: Conversation, rest: str) -> None:
    """Set the title of the session, or print its title and tags. Raises ToolcribError."""
    from agent.cli.labels import rename
    from agent.cli.session_format import marks_of

    info = await chat.session.info()
    if rest:
        refuse_below_session(chat, "renaming a session")
        session = chat.session
        title = await chat.writing(lambda: rename(session.store.sessions, session.id, rest))
        chat.screen.print_note(f"the session is renamed: {tame(title)}")
    elif info is None or not (info.title or info.tags):
        raise ToolcribError("this session has no title yet; to set one: /title TEXT")
    else:
        chat.screen.print_note(f"{tame(info.title)}{marks_of(info.tags)}; to rename it: /title TEXT")


async def show_sessions(chat: Conversation, rest: str) -> None:
    """List the last sessions. Raises Denied if a session's command started this chat: only a user may read other sessions."""
    import time

    from agent.cli.render import table
    from agent.cli.session_format import SPARE, persons_sessions, session_rows

    refuse_below_session(chat, "reading stored sessions")
    found = await persons_sessions(chat.opening.crib.store, 10)
    if found:
        table(session_rows(found, time.time()), spare=SPARE, width=chat.screen.width, below=True)
    chat.screen.print_note("to continue one: /resume ID" if found else "no sessions yet")


def refuse_below_session(chat: Conversation, what: str) -> None:
    """Raise Denied if a session's command started this chat, directly or indirectly."""
    from agent.policy.self_protection import folders_of, refuse_below

    refuse_below(folders_of(chat.opening.crib.config), what)


COMMANDS: Mapping[str, Callable[[Conversation, str], Awaitable[None]]] = {
    "/fork": fork_chat,
    "/compress": compress_chat,
    "/context": show_context,
    "/title": title_chat,
    "/sessions": show_sessions,
}
