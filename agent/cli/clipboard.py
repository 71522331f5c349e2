"""Read the image in the clipboard of the user's desktop, with a program that is installed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.cli.escape import one_line
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import IMAGE_BYTES, Image

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation

_PATIENCE = 3.0
_ELSE = "drop the image file into the terminal, or attach it as @path"


async def paste_image(chat: Conversation) -> None:
    """Add the clipboard's image to the chat's next message, or print why that fails."""
    import asyncio

    try:
        if not chat.model:
            raise ToolcribError("no model is connected that could see it; to connect one: /model")
        image = await asyncio.get_running_loop().run_in_executor(None, clipboard_image)
    except ToolcribError as error:
        chat.screen.fault(f"✗ {one_line(str(error))}")
        return
    chat.images.append(image)
    chat.screen.print_note(f"{image} is attached to your next message; /image removes it")
    chat.screen.draw(image)


def clipboard_image(environ: Mapping[str, str] = os.environ) -> Image:
    """Return the clipboard's image. Raises ToolcribError if there is none, or no program that can read it."""
    import subprocess

    command = _program(environ)
    if command is None:
        raise ToolcribError(_missing(environ))
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        raise ToolcribError(f"{command[0]} did not answer in {_PATIENCE:.0f} s; {_ELSE}") from None
    except OSError as error:
        raise ToolcribError(f"{command[0]} cannot be started: {error.strerror or error}; {_ELSE}") from None
    if done.returncode or not done.stdout:
        raise ToolcribError("the clipboard has no image (to paste text, use the terminal's own key)")
    if len(done.stdout) > IMAGE_BYTES:
        raise ToolcribError(f"the clipboard's image is larger than {IMAGE_BYTES >> 20} MiB")
    return Image.of(done.stdout)


def _program(environ: Mapping[str, str]) -> Sequence[str] | None:
    """Return the command that writes the clipboard's image to its output, or None if no such program is installed."""
    import shutil
    import sys

    found: list[list[str]] = []
    if environ.get("WAYLAND_DISPLAY"):
        found.append(["wl-paste", "--no-newline", "--type", "image/png"])
    if environ.get("DISPLAY"):
        found.append(["xclip", "-selection", "clipboard", "-target", "image/png", "-out"])
    if sys.platform == "darwin":
        found.append(["pngpaste", "-"])
    return next((command for command in found if shutil.which(command[0], path=environ.get("PATH"))), None)


def _without(program: str, source: str) -> str:
    return f"images in the clipboard can't be read: {program} is not installed; install it ({source}), or {_ELSE}"


def _missing(environ: Mapping[str, str]) -> str:
    import sys

    if sys.platform == "darwin":
        return _without("pngpaste", "brew install pngpaste")
    if environ.get("WAYLAND_DISPLAY"):
        return _without("wl-paste", "the package wl-clipboard")
    if environ.get("DISPLAY"):
        return _without("xclip", "the package xclip")
    return f"there is no desktop clipboard here, for example over ssh; {_ELSE}"
