"""Images in conversations: read from records and replies, and formatted for several wires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image, decoded
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.session import ExecutedCall
from tools.dispatch.json_results import images_of


class FromTool(NamedTuple):
    """The images of one call's result. ``label`` precedes them if they are sent outside the result."""

    name: str
    images: Sequence[Image]

    @property
    def label(self) -> str:
        return f"images from {self.name}:"


Pictured: TypeAlias = Mapping[str, FromTool]
"""The images of the results that have any, by call id."""

NO_IMAGES: Pictured = {}


def pictured(executed: Iterable[ExecutedCall]) -> Pictured:
    return {one.call.id: FromTool(one.call.name, images) for one in executed if (images := images_of(one))}


def pictured_record(record: Mapping[str, Any]) -> Pictured:
    """Return the images of stored results."""
    found = (one for one in record["results"] if one.get("images") and not one.get("is_error"))
    return {one["call_id"]: FromTool(one["name"], recorded(one)) for one in found}


def recorded(record: Mapping[str, Any]) -> Sequence[Image]:
    """Return the images of one record, or of one result in it."""
    return [Image.from_json(one) for one in record.get("images") or ()]


def carried(
    records: Iterable[Mapping[str, Any]], wire: str = "", is_ours: Callable[[Mapping[str, Any]], bool] = bool
) -> Iterator[Mapping[str, Any]]:
    """Yield ``records``; images that another wire or model drew move to the user's next message.

    Only the wire and model that drew an image accept it back as the assistant's.
    """
    drawn: list[Any] = []
    for record in records:
        role = record.get("role")
        if role == "assistant" and record.get("images"):
            native = record.get("native")
            own = isinstance(native, Mapping) and native.get("wire") == wire and is_ours(record)
            drawn += () if own else record["images"]
        elif role == "user" and drawn:
            record, drawn = {**record, "images": [*drawn, *(record.get("images") or ())]}, []
        yield record


# -- Chat Completions ------------------------------------------------------------------------------------------------------


def data_url(image: Image) -> str:
    return f"data:{image.media_type};base64,{image.base64}"


def chat_content(text: str, images: Sequence[Image]) -> str | list[dict[str, Any]]:
    """Return a message's content: plain text if there are no images."""
    if not images:
        return text
    said: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    return said + [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in images]


def chat_from_tools(shown: Pictured) -> list[dict[str, Any]]:
    """Return the content of a user message with the images of results, because tool messages have only text."""
    parts: list[dict[str, Any]] = []
    for one in shown.values():
        parts += chat_content(one.label, one.images)  # type: ignore[arg-type] # with images it is a list
    return parts


# -- images that a model drew ----------------------------------------------------------------------------------------------


def drawn_in(texts: Iterable[Any]) -> tuple[Image, ...]:
    """Return the images among base64 texts or ``data:`` URLs. Unknown formats are skipped; the native reply still has them."""
    found = []
    for text in texts:
        if isinstance(text, str) and text:
            try:
                found.append(Image.of(decoded(text.partition(",")[2] if text.startswith("data:") else text)))
            except ToolcribError:
                continue
    return tuple(found)


def drawn_in_chat(images: Sequence[Any]) -> tuple[Image, ...]:
    """Return the images of ``message.images``. Only ``data:`` URLs count; addresses are not fetched."""
    urls = (one.get("image_url") for one in images if isinstance(one, dict))
    found = (url.get("url") if isinstance(url, dict) else url for url in urls)
    return drawn_in(url for url in found if isinstance(url, str) and url.startswith("data:"))
