"""Locations of toolcrib's own code and of its Python. No tool may change them, because the next start of toolcrib runs them."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.judge.own_code import Installed

TOPS = ("toolcrib", "tools", "toolsets.py", "model_tools.py", "agent", "plugins")
"""Names that the distribution installs at the top level."""


def installed(*, develop: bool = False) -> Installed:
    """Return the paths that tools may not change in this process. With ``develop``, leave out the checkout that toolcrib runs
    from.

    ``develop`` is for a user who works on toolcrib's sources.
    """
    from tools.judge.own_code import Installed

    root = Path(__file__).resolve().parents[1]
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    folders = [Path(path) for path in (*site.getsitepackages(), *users, os.path.dirname(os.__file__))]  # noqa: PTH120 - a string among strings
    checkout = not any(root == path.resolve() for path in folders)
    own = [] if develop and checkout else [root / name for name in TOPS]
    scripts = Path(sys.executable).parent
    closed = [*own, *folders, *_interpreter(scripts), *_tool_folders()]
    return Installed(
        closed=_named_and_real(closed),
        checkout=str(root) if checkout and not develop else "",
        programs=_named_and_real([scripts]),
        path=os.environ.get("PATH", ""),
        sessions=_multiplexed(*(os.environ.get(name, "") for name in ("TMUX", "TMUX_PANE", "STY", "ZELLIJ_SESSION_NAME"))),
    )


def _interpreter(scripts: Path) -> Iterator[Path]:
    """Yield the paths of the programs beside the interpreter: in a virtual environment the whole folder ``scripts`` and
    pyvenv.cfg, else only the interpreter and the program toolcrib.
    """
    if sys.prefix != sys.base_prefix:
        yield from (Path(sys.prefix, "pyvenv.cfg"), scripts)
    else:
        yield from (Path(sys.executable), scripts / "toolcrib")


def _tool_folders() -> Iterator[Path]:
    """Yield the existing folders where uv and pipx keep the environments of tools."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    pipx = os.environ.get("PIPX_HOME")
    folders = [
        Path(os.environ.get("UV_TOOL_DIR") or data / "uv" / "tools"),
        *([Path(pipx) / "venvs"] if pipx else [home / ".local" / "share" / "pipx" / "venvs", home / ".local" / "pipx" / "venvs"]),
    ]
    yield from (folder for folder in folders if folder.is_dir())


def _named_and_real(paths: Sequence[Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for path in paths for name in (os.path.abspath(path), os.path.realpath(path))))  # noqa: PTH100 - resolve() raises on a loop


_PATIENCE = 2.0
"""Seconds that tmux has to answer."""


@lru_cache(maxsize=8)
def _multiplexed(tmux: str, pane: str, sty: str, zellij: str) -> tuple[str, ...]:
    """Return the names of the multiplexer sessions and windows that this process runs in; ``*`` if tmux does not report them."""
    names = [zellij] if zellij else []
    if sty:
        names += [sty, sty.partition(".")[2] or sty]
    if tmux:
        at = ["-S", tmux.split(",")[0]]
        for asked in (["display-message", "-p", "-t", pane, "#S"], ["list-windows", "-t", pane, "-F", "#W"]):
            try:
                said = subprocess.run(["tmux", *at, *asked], capture_output=True, text=True, timeout=_PATIENCE, check=True).stdout
            except (OSError, subprocess.SubprocessError):
                return ("*",)
            names += said.split("\n")
    return tuple(dict.fromkeys(filter(None, names)))
