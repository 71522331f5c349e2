"""Pictures: drawn only on terminals that are known to show them, dropped as paths, pasted from the clipboard."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.cli.clipboard import clipboard_image
from agent.cli.images import as_mentions
from agent.cli.picturing import MOST_ROWS, drawn, protocol_of
from toolcrib import Image, ToolcribError


def png(width: int, height: int, more: int = 0) -> Image:
    return Image(
        "image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes(more)
    )


@pytest.mark.parametrize(
    ("environ", "protocol"),
    [
        ({"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, ""),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "iTerm.app"}, ""),
        ({"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1", "TMUX": "/x"}, ""),
        ({"TERM": "screen", "KITTY_WINDOW_ID": "1", "STY": "1"}, ""),
    ],
)
def test_only_terminals_that_name_themselves_draw(environ: dict[str, str], protocol: str) -> None:
    assert protocol_of(environ) == protocol


def test_a_picture_is_drawn_within_some_rows() -> None:
    kitty = drawn(png(400, 4000, 9_000), "kitty", 80)
    assert kitty.startswith(f"\x1b_Ga=T,f=100,q=2,r={MOST_ROWS},m=1;")
    assert kitty.endswith("\x1b\\\r\n")
    pieces = kitty.removesuffix("\r\n").split("\x1b\\")[:-1]
    assert [piece.split(";")[0][-3:] for piece in pieces] == ["m=1"] * (len(pieces) - 1) + ["m=0"]
    assert "".join(piece.split(";")[1] for piece in pieces) == png(400, 4000, 9_000).base64
    assert "height=2;" in drawn(png(800, 40), "iterm", 80)
    assert "height=1;" in drawn(png(8000, 40), "iterm", 80)
    assert drawn(png(8, 8), "", 80) == ""
    assert drawn(Image("image/gif", b"GIF89a" + bytes(30)), "iterm", 80) == ""
    assert drawn(png(0, 8), "kitty", 80) == ""


def test_dropped_pictures_are_named_in_the_message(tmp_path: Path) -> None:
    plain, blank = tmp_path / "a.png", tmp_path / "my pic's.JPG"
    for file in (plain, blank, tmp_path / "notes.txt"):
        file.write_bytes(b"x")
    escaped = str(blank).replace(" ", "\\ ").replace("'", "\\'")
    address = f"file://{blank}".replace(" ", "%20")
    assert as_mentions(f"{plain} ") == f"@{plain} "
    assert as_mentions(f"'{plain}'") == f"@{plain} "
    assert as_mentions(escaped) == as_mentions(f'"{blank}"') == as_mentions(str(blank)) == f'@"{blank}" '
    assert as_mentions(address.replace("'", "%27")) == f'@"{blank}" '
    assert as_mentions(f"'{plain}' '{plain}'") == f"@{plain} @{plain} "
    for other in ("a.png", f"see {plain}", f"{plain}\n{plain}", f"{tmp_path}/none.png", f"{tmp_path}/notes.txt", "", "it's"):
        assert as_mentions(other) == other


@pytest.mark.parametrize(("display", "program"), [("DISPLAY", "xclip"), ("WAYLAND_DISPLAY", "wl-paste")])
def test_the_clipboard_s_picture(tmp_path: Path, display: str, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = {display: ":0", "PATH": str(tmp_path)}
    with pytest.raises(ToolcribError, match=f"{program} is not installed"):
        clipboard_image(environ)
    script = tmp_path / program
    (tmp_path / "data").write_bytes(png(8, 8).data)
    script.write_text(f'#!/bin/sh\ncase "$*" in *image/png*) cat {tmp_path}/data;; *) exit 1;; esac\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert clipboard_image({**environ, "PATH": os.environ["PATH"]}).data == png(8, 8).data
    script.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ToolcribError, match="the clipboard has no image"):
        clipboard_image({**environ, "PATH": os.environ["PATH"]})
    with pytest.raises(ToolcribError, match="no desktop clipboard here"):
        clipboard_image({"PATH": os.environ["PATH"]})
