"""Images on a command line: files that the model sees, and files for the images that it makes."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image, image_label
from toolcrib.contract.paths import with_home

_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_LONGEST_PATHS = 4_000


def read_images(paths: Iterable[str]) -> list[Image]:
    """Return the images of these files. Raises ToolcribError, with the file's name, if a file is not an image."""
    return [Image.from_file(with_home(path)) for path in paths]


def read_typed(given: str) -> Image:
    """Return the image at a path that a user typed or dropped into a terminal: with ~, perhaps quoted. Raises ToolcribError."""
    path = with_home(given)
    if not path.exists():
        try:
            words = shlex.split(given)
        except ValueError:
            words = []
        if len(words) == 1:
            path = with_home(words[0])
    return Image.from_file(path)


def as_mentions(pasted: str) -> str:
    """Return a paste as ``@path`` mentions if it consists of image paths only: files that were dropped into the terminal. Other
    pastes are returned unchanged.
    """
    text = pasted.strip()
    if not text or len(text) > _LONGEST_PATHS or "\n" in text or not text.lower().rstrip("'\"").endswith(_ENDINGS):
        return pasted
    if Path(text).is_absolute() and Path(text).is_file():  # not quoted or escaped, perhaps with blanks
        words = [text]
    else:
        try:
            words = [_path_of(word) for word in shlex.split(text)]
        except ValueError:
            return pasted
    if not all(word.lower().endswith(_ENDINGS) and Path(word).is_absolute() and '"' not in word for word in words):
        return pasted
    if not all(Path(word).is_file() for word in words):
        return pasted
    return "".join(f'@"{word}" ' if any(char in word for char in " \t\\'") else f"@{word} " for word in words)


def _path_of(word: str) -> str:
    """Return the path of a word, which may be a file:// URL."""
    from urllib.parse import unquote, urlsplit

    if word.startswith("file://"):
        return unquote(urlsplit(word).path)
    return os.path.expanduser(word)  # noqa: PTH111 - keeps the path as typed


class ImageFolder:
    """A folder for images that the model makes: image-1.png, image-2.jpeg, ... No file in it is ever overwritten.

    Raises ToolcribError if the folder can't be created.
    """

    def __init__(self, folder: str) -> None:
        self._folder = with_home(folder)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ToolcribError(f"--save-images: {self._folder} cannot be created: {error.strerror or error}") from None
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise ToolcribError(f"--save-images: {self._folder} is not writable; choose another folder")

    def save(self, image: Image) -> Path:
        """Save the image and return its path. Raises ToolcribError if that fails."""
        ending = image.media_type.partition("/")[2]
        try:
            for number in itertools.count(1):
                path = self._folder / f"image-{number}.{ending}"
                try:
                    with path.open("xb") as file:
                        file.write(image.data)
                except FileExistsError:
                    continue
                return path
        except OSError as error:
            raise ToolcribError(f"the image cannot be saved: {path}: {error.strerror or error}; the session keeps it") from None
        raise AssertionError("unreachable")


def labels(images: Iterable[Image]) -> str:
    """Return labels such as ``[image/png, 512 kB] [image/jpeg, 1.2 MB]``."""
    return " ".join(map(str, images))


def recorded_labels(record: Mapping[str, Any]) -> Sequence[str]:
    """Return labels of a record's images, without decoding them."""
    found = ((one["media_type"], one["data"]) for one in record.get("images", ()))
    return [image_label(media_type, len(data) * 3 // 4 - data.count("=", -2)) for media_type, data in found]
