"""Convert what a server returns into a result."""

from __future__ import annotations

import base64
import binascii
import json
import mimetypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.types import Json, ToolResult
from tools.judge.characters import is_hidden

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_ALLOWED = frozenset("\n\t")


class _Parts:
    """The parts of a result's content. ``texts`` are for the model, ``images`` too."""

    def __init__(self, ctx: ToolCallContext) -> None:
        self._ctx = ctx
        self.texts: list[str] = []
        self.images: list[Image] = []

    async def add(self, block: ContentBlock) -> None:
        match block.type:
            case "text":
                self.texts.append(shown(block.text))
            case "image":
                await self._picture(block.data, block.mime_type)
            case "audio":
                self.texts.append(f"[audio: {await self._file(block.data, block.mime_type)}]")
            case "resource_link":
                about = f" - {block.description}" if block.description else ""
                self.texts.append(shown(f"[{block.uri} ({block.title or block.name}){about}]"))
            case "resource":
                await self._resource(block.resource)

    async def _resource(self, resource: Any) -> None:
        text = getattr(resource, "text", None)
        if text is not None:
            self.texts.append(shown(f"[{resource.uri}]\n{text}"))
            return
        kind = resource.mime_type or "application/octet-stream"
        self.texts.append(shown(f"[{resource.uri}: {await self._file(resource.blob, kind)}]"))

    async def _picture(self, data: str, kind: str) -> None:
        try:
            self.images.append(Image.of(base64.b64decode(data, validate=True)))
        except (ToolcribError, binascii.Error) as error:
            self.texts.append(f"[a picture of the type {shown(kind)} that can't be shown: {error}]")

    async def _file(self, data: str, kind: str) -> str:
        """Return the name under which the model finds the content."""
        try:
            content = base64.b64decode(data, validate=True)
        except binascii.Error as error:
            return f"not readable: {error}"
        folder = self._ctx.spill_dir
        number = len(list(folder.iterdir()))
        file = folder / f"mcp-{number}{mimetypes.guess_extension(kind, strict=False) or '.bin'}"
        file.write_bytes(content)
        return f"{await self._ctx.keep_file(file)}, {shown(kind)}, {len(content):,} bytes"


def shown(text: str) -> str:
    """Return the text with hidden characters escaped: a server may hide instructions for the model in them."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(char) if char not in _ALLOWED and is_hidden(char) else char for char in text)


def _escaped(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _shown_data(value: Json) -> Json:
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, list):
        return [_shown_data(one) for one in value]
    if isinstance(value, dict):
        return {shown(key): _shown_data(one) for key, one in value.items()}
    return value


async def result_of(name: str, given: CallToolResult, ctx: ToolCallContext) -> ToolResult:
    """Return a server's result as the result of the tool ``name``. Structured content is its data; text that only repeats that
    is left out.
    """
    parts = _Parts(ctx)
    for block in given.content:
        await parts.add(block)
    text = "\n".join(parts.texts)
    if given.is_error:
        return ToolResult.error(name, text or "the server reports an error without a reason")
    data: Json = text
    if given.structured_content not in (None, {"result": "\n".join(_plain_texts(given))}):
        data = _shown_data(given.structured_content)
        if more := _beyond(parts.texts, given.structured_content):
            data = {"data": data, "text": more}
    return ToolResult.success_with_images(name, data, parts.images)


def _plain_texts(given: CallToolResult) -> list[str]:
    return [block.text for block in given.content if block.type == "text"]


def _beyond(texts: Sequence[str], data: Json) -> str:
    """Return the texts that are not the structured content once more."""
    return "\n".join(text for text in texts if not _is_json_of(text, data))


def _is_json_of(text: str, data: Json) -> bool:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return found in (data, data.get("result") if isinstance(data, dict) else data)
