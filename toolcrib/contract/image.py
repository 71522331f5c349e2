"""Images that a user shows a model, a tool returns, or a model draws."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from pathlib import Path

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types that the model servers accept."""

IMAGE_BYTES = 20 * 1024 * 1024
"""Maximum size of an image, in bytes."""


@dataclass(frozen=True, slots=True)
class Image:
    """An image: ``data`` is the content of an image file, ``media_type`` is image/png, image/jpeg, image/gif or image/webp.

    Its ``repr`` omits the bytes, to keep them out of logs. Raises ToolcribError for any other media type, for empty data, and for
    more than 20 MiB.
    """

    media_type: str
    data: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if self.media_type not in MEDIA_TYPES:
            raise ToolcribError(f"an image can't have the type {self.media_type!r}; use one of {', '.join(MEDIA_TYPES)}")
        if not self.data:
            raise ToolcribError("the image is empty: it has no bytes")
        if len(self.data) > IMAGE_BYTES:
            raise ToolcribError(_too_large("the image", len(self.data)))

    def __str__(self) -> str:
        return image_label(self.media_type, len(self.data))

    @classmethod
    def of(cls, data: bytes) -> Image:
        """Return an image, with the type that its first bytes show. Raises ToolcribError if no supported type matches."""
        found = _sniff(data)
        if found is None and data:
            raise ToolcribError(f"models do not accept this image: it must be {_FORMS}")
        return cls(found or MEDIA_TYPES[0], data)

    @classmethod
    def from_file(cls, path: str | Path) -> Image:
        """Return the image in a file. Raises ToolcribError if the file can't be read, is too large, or has no supported type."""
        from pathlib import Path  # slow to import, so not at the top of a contract module

        path = Path(path)
        try:
            if not path.is_file():
                path.stat()  # raises if the file does not exist
                raise ToolcribError(f"{path} is not a file; give the path of an image ({_FORMS})")
            size = path.stat().st_size
            if size > IMAGE_BYTES:
                raise ToolcribError(_too_large(str(path), size))
            with path.open("rb") as file:
                data = file.read(IMAGE_BYTES + 1)  # the file may have grown
        except (OSError, ValueError) as error:
            raise ToolcribError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from None
        found = _sniff(data)
        if found is None:
            what = "is empty" if not data else "is not an image that models accept"
            raise ToolcribError(f"{path} {what}: it must be {_FORMS}")
        return cls(found, data)

    @property
    def base64(self) -> str:
        """The data in base64, as requests carry it."""
        return binascii.b2a_base64(self.data, newline=False).decode("ascii")

    def to_json(self) -> dict[str, str]:
        """Return ``{"media_type", "data"}``, with the data in base64."""
        return {"media_type": self.media_type, "data": self.base64}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Image:
        """Return the image that ``to_json`` wrote. Raises KeyError if a field is missing, ToolcribError if the media type,
        the base64 text or the size is invalid.
        """
        return cls(data["media_type"], decoded(data["data"]))


def decoded(text: str) -> bytes:
    """Return the bytes of base64 text. Raises ToolcribError if the text can't be decoded."""
    try:
        return binascii.a2b_base64(text)
    except (ValueError, TypeError) as error:
        raise ToolcribError(f"the image is not base64: {error}") from None


def image_label(media_type: str, size: int) -> str:
    """Return a label for people, such as ``[image/png, 512 kB]``."""
    shown = f"{size} B" if size < 1000 else f"{size / 1000:.0f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"
    return f"[{media_type}, {shown}]"


_FORMS = "PNG, JPEG, GIF or WebP"


def _sniff(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def _too_large(what: str, size: int) -> str:
    most = f"{IMAGE_BYTES // (1024 * 1024)} MiB"
    return f"{what} is {size / (1024 * 1024):.1f} MiB, but an image may be at most {most}; make it smaller"
