"""Shared parts of chat platform adapters: Markdown in a platform's own markup, receiving without gaps, sending once, storing
presses, numeric settings, bounded memory, TLS checks, and a small web server. ``BotPlatform`` and ``IntakePlatform`` are base
classes of platforms that use one account of a chat service.

    _SLACK = Markup(bold="*{}*", italic="_{}_", strike="~{}~", code="`{}`", block="```\\n{}\\n```", link="<{1}|{0}>".format)
    shown(out.text, _SLACK)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from agent.http_server import listening_at, server_of
from toolcrib._bot_platform import BotPlatform, IntakePlatform, button_data, choice_and_key, number_of
from toolcrib.chat import Host, Press, without_controls
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.dedup import SentKeys
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.intake import Intake
from toolcrib.contract.recent import Recent
from toolcrib.contract.regex import Regex
from toolcrib.contract.trust import Trust, is_loopback

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

__all__ = [
    "BotPlatform", "Intake", "IntakePlatform", "Markup", "Recent", "SentKeys", "Trust", "button_data", "choice_and_key",
    "is_loopback", "keep_receiving", "listening_at", "number_of", "press_until_kept", "server_of", "shown", "without_fences",
]  # fmt: skip

_log = logging.getLogger(__name__)
_SCHEMES = ("http://", "https://", "mailto:")
_FENCE = Regex("`(?=``)")
_LANGUAGE = Regex(r"[\w+#.-]{1,30}")
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_PRESS_PAUSES = (0.5, 1, 2, 4, 8, 15, 30, 30, 30)


@dataclass(frozen=True, slots=True)
class Markup:
    """A platform's own markup for Markdown, with ``{}`` for the text; the defaults give plain text.

    ``words`` escapes text, ``verbatim`` escapes text within code. ``block`` is code of several lines, ``block_in`` the same with
    its language as ``{1}``. ``inline``, if set, gets unescaped code within a line and replaces ``code``. ``link`` gets the text
    and the address; addresses other than web and mail addresses are left out.
    """

    words: Callable[[str], str] = str
    verbatim: Callable[[str], str] = str
    bold: str = "{}"
    italic: str = "{}"
    strike: str = "{}"
    code: str = "{}"
    inline: Callable[[str], str] | None = None
    block: str = "{}"
    block_in: str = ""
    quote: Callable[[str], str] = str
    link: Callable[[str, str], str] = "{0} ({1})".format


def shown(markdown: str, markup: Markup) -> str:
    """Return Markdown in a platform's markup. Control characters become U+FFFD, even those written as references (``&#13;``)."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return without_controls(_Writer(markup).blocks(SyntaxTreeNode(reader.parse(without_controls(markdown))).children, 0))


def without_fences(text: str) -> str:
    """Return the text with an invisible character in each group of three backticks, so that it can't end its code block."""
    return _FENCE.sub("`\u200b", text)


class _Writer:
    def __init__(self, markup: Markup) -> None:
        self._markup = markup
        self._styles = {"strong": markup.bold, "em": markup.italic, "s": markup.strike}

    def blocks(self, nodes: Iterable[SyntaxTreeNode], depth: int, between: str = "\n\n") -> str:
        return between.join(filter(None, (self._block(node, depth) for node in nodes)))

    def _block(self, node: SyntaxTreeNode, depth: int) -> str:
        markup = self._markup
        match node.type:
            case "inline":
                return self._spans(node)
            case "heading":
                return markup.bold.format(self.blocks(node.children, depth))
            case "fence" | "code_block":
                code, language = markup.verbatim(node.content.rstrip("\n")), _LANGUAGE.match(node.info)
                return markup.block_in.format(code, language[0]) if language and markup.block_in else markup.block.format(code)
            case "blockquote" if depth == 0:  # few platforms show nested quotes
                return markup.quote(self.blocks(node.children, 1))
            case "bullet_list" | "ordered_list":
                return self._list(node, depth)
            case "table":
                rows = [row for part in node.children for row in part.children]
                lines = [" | ".join("".join(one.content for one in cell.children) for cell in row.children) for row in rows]
                return markup.block.format(markup.verbatim("\n".join(lines)))
            case "hr":
                return "———"
            case _ if node.children:
                return self.blocks(node.children, depth)
            case _:
                return markup.words(node.content)

    def _list(self, node: SyntaxTreeNode, depth: int) -> str:
        number = node.attrs.get("start", 1) if node.type == "ordered_list" else None
        lines = []
        for item in node.children:
            mark = "•" if number is None else f"{number}."
            lines.append(f"{'   ' * max(0, depth - 1)}{mark} {self.blocks(item.children, depth + 2, chr(10))}")
            number = number + 1 if isinstance(number, int) else number
        return "\n".join(lines)

    def _spans(self, node: SyntaxTreeNode) -> str:
        return "".join(map(self._span, node.children))

    def _span(self, node: SyntaxTreeNode) -> str:
        markup = self._markup
        match node.type:
            case "strong" | "em" | "s":
                return self._styles[node.type].format(self._spans(node))
            case "code_inline":
                return markup.inline(node.content) if markup.inline else markup.code.format(markup.verbatim(node.content))
            case "softbreak" | "hardbreak":
                return "\n"
            case "link" | "image":
                words = self._spans(node) or markup.words(node.content) or "link"
                target = str(node.attrs.get("href") or node.attrs.get("src") or "")
                return markup.link(words, target) if target.lower().startswith(_SCHEMES) else words
            case _:
                return markup.words(node.content)


async def keep_receiving(
    receive: Callable[[], Awaitable[object]],
    name: str,
    expected: tuple[type[Exception], ...],
    wait_of: Callable[[Exception], float | None],
) -> None:
    """Call ``receive``, the function that receives a platform's messages, until cancelled.

    If it raises, it is called again after ``wait_of(error)`` seconds, a time that the server may set, or, if that is None, soon
    and then at growing intervals. Errors other than ``expected`` are logged with a traceback; they don't end the loop, because
    no message would arrive without it.
    """
    import asyncio

    pause = 0.0
    while True:
        try:
            await receive()
            pause = 0.0
        except Exception as error:  # noqa: BLE001 - receiving must continue, whatever a library raises
            told = wait_of(error)
            pause = min(_LONGEST_PAUSE, pause * 2 or _SHORTEST_PAUSE) if told is None else told
            _log.warning(
                "%s: receiving failed, retrying in %.1f s: %s", name, pause, error, exc_info=not isinstance(error, expected)
            )
            await asyncio.sleep(pause)


async def press_until_kept(host: Host, press: Press) -> str:
    """Return the line for the user who pressed, or "" if the press could not be stored for two minutes. Retries, because servers
    send a press only once.
    """
    import asyncio

    for pause in _PRESS_PAUSES:
        try:
            return await host.press(press)
        except StoreFailed:
            await asyncio.sleep(pause)
    return ""
