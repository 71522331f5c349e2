"""Images: accepted formats, and storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib import Image, ToolcribError, ToolResult
from toolcrib.contract.image import IMAGE_BYTES

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0x", "image/jpeg"),
        (b"GIF87a.", "image/gif"),
        (b"GIF89a.", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_004_21_a_file_s_first_bytes_tell_its_type(tmp_path: Path, data: bytes, media_type: str) -> None:
    file = tmp_path / "named.wrongly"
    file.write_bytes(data)
    image = Image.from_file(file)
    assert (image.media_type, image.data) == (media_type, data)
    assert Image.of(data) == image
    assert Image.from_json(image.to_json()) == image


def test_004_21_what_is_no_image_is_told(tmp_path: Path) -> None:
    text, empty, large = tmp_path / "a.png", tmp_path / "empty.png", tmp_path / "large.png"
    text.write_text("<svg/>")
    empty.touch()
    with large.open("wb") as file:
        file.write(PNG)
        file.truncate(IMAGE_BYTES + 1)
    for path, why in (
        (text, "a.png is not an image that models accept: it must be PNG, JPEG, GIF or WebP"),
        (empty, "empty.png is empty"),
        (large, "large.png is 20.0 MiB, but an image may be at most 20 MiB; make it smaller"),
        (tmp_path, "is not a file"),
        (tmp_path / "none.png", "none.png can't be read: No such file"),
        (tmp_path / "nu\0ll", "can't be read"),
    ):
        with pytest.raises(ToolcribError, match=why):
            Image.from_file(path)
    with pytest.raises(ToolcribError, match="'image/svg'; use one of image/png"):
        Image("image/svg", b"x")
    with pytest.raises(ToolcribError, match="empty"):
        Image.of(b"")
    with pytest.raises(ToolcribError, match="make it smaller"):
        Image("image/png", bytes(IMAGE_BYTES + 1))
    with pytest.raises(ToolcribError, match="not base64"):
        Image.from_json({"media_type": "image/png", "data": "ü"})
    with pytest.raises(ToolcribError, match=r"models do not accept this image|not an image that models accept"):
        Image.of(b"plain text")
    for other in (b"RIFF\x10\0\0\0WAVEfmt ", b"abcd\x10\0\0\0WEBPVP8 "):
        with pytest.raises(ToolcribError, match=r"models do not accept this image|not an image that models accept"):
            Image.of(other)


def test_no_bytes_of_an_image_are_in_a_log() -> None:
    image = Image("image/png", b"secret" * 100_000)
    assert repr(image) == "Image(media_type='image/png')"
    assert str(image) == "[image/png, 600 kB]"
    assert [str(Image("image/gif", bytes(size))) for size in (999, 2_400_000)] == ["[image/gif, 999 B]", "[image/gif, 2.4 MB]"]
    result = ToolResult.success_with_images("plot", {"points": 3}, [image])
    assert result.images == (image,)
    assert result.to_json() == {"tool_name": "plot", "status": "success", "data": {"points": 3}}
    assert "secret" not in repr(result)
