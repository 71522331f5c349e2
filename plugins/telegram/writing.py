"""Markdown as the HTML that Telegram reads. Nothing in it mentions anybody."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import TYPE_CHECKING

from toolcrib._regex import Regex
from toolcrib.chat import without_controls

if TYPE_CHECKING:
    from markdown_it.tree import SyntaxTreeNode

_MENTION = Regex(r"(?<!\w)@")
_TAG = Regex(r"<[^>]*>")
_LANGUAGE = Regex(r"[\w+#.-]{1,30}")
_STYLES = {"strong": "b", "em": "i", "s": "s"}
_SCHEMES = ("http://", "https://", "mailto:")


def html_of(markdown: str) -> str:
    """Return Markdown as HTML."""
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    reader = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return _blocks(SyntaxTreeNode(reader.parse(without_controls(markdown))).children)


def html_of_plain(text: str, *, is_code: bool = False) -> str:
    """Return a text as it stands; as code it can be copied, and nothing in it is a mention."""
    text = without_controls(text)
    return f"<pre>{html.escape(text, quote=False)}</pre>" if is_code else _text(text)


def units(shown: str) -> int:
    """Return the length of what a reader sees of it, as Telegram counts it at most: in UTF-16."""
    return len(html.unescape(_TAG.sub("", shown)).encode("utf-16-le")) // 2


def _text(text: str) -> str:
    """Escape words; a joiner after an ``@`` keeps it from naming anybody."""
    return html.escape(_MENTION.sub("@\u2060", text), quote=False)


def _blocks(nodes: Iterable[SyntaxTreeNode], depth: int = 0, between: str = "\n\n") -> str:
    return between.join(filter(None, (_block(node, depth) for node in nodes)))


def _block(node: SyntaxTreeNode, depth: int) -> str:
    match node.type:
        case "inline":
            return _inline(node.children)
        case "heading":
            return f"<b>{_blocks(node.children, depth)}</b>"
        case "fence" | "code_block":
            language = _LANGUAGE.match(node.info)
            code = html.escape(node.content.rstrip("\n"), quote=False)
            return f'<pre><code class="language-{language[0]}">{code}</code></pre>' if language else f"<pre>{code}</pre>"
        case "blockquote" if depth == 0:  # quotes within quotes are refused
            return f"<blockquote>{_blocks(node.children, 1)}</blockquote>"
        case "bullet_list" | "ordered_list":
            return _list(node, depth)
        case "table":
            rows = [row for part in node.children for row in part.children]
            lines = [" | ".join("".join(one.content for one in cell.children) for cell in row.children) for row in rows]
            return f"<pre>{html.escape(chr(10).join(lines), quote=False)}</pre>"
        case "hr":
            return "———"
        case _ if node.children:
            return _blocks(node.children, depth)
        case _:
            return _text(node.content)


def _list(node: SyntaxTreeNode, depth: int) -> str:
    number = node.attrs.get("start", 1) if node.type == "ordered_list" else None
    lines = []
    for item in node.children:
        mark = "•" if number is None else f"{number}."
        lines.append(f"{'   ' * max(0, depth - 1)}{mark} {_blocks(item.children, depth + 2, chr(10))}")
        number = number + 1 if isinstance(number, int) else number
    return "\n".join(lines)


def _inline(nodes: Iterable[SyntaxTreeNode]) -> str:
    return "".join(map(_span, nodes))


def _span(node: SyntaxTreeNode) -> str:
    match node.type:
        case "strong" | "em" | "s":
            tag = _STYLES[node.type]
            return f"<{tag}>{_inline(node.children)}</{tag}>"
        case "code_inline":
            return f"<code>{html.escape(node.content, quote=False)}</code>"
        case "softbreak" | "hardbreak":
            return "\n"
        case "link" | "image":
            words = _inline(node.children) or _text(node.content) or "link"
            target = str(node.attrs.get("href") or node.attrs.get("src") or "")
            return f'<a href="{html.escape(target)}">{words}</a>' if target.lower().startswith(_SCHEMES) else words
        case _:
            return _text(node.content)
