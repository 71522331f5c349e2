"""The socket by which a terminal reaches the gateway, and the form of what goes through it: a JSON object a line."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolcrib import ToolcribError

LINE_BYTES = 1024 * 1024


def socket_path(given: str = "") -> Path:
    """Return where the socket lies: as given, else in a folder of this account's that nobody else can enter."""
    if given:
        return Path(given).expanduser()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = Path(runtime) if runtime else Path(tempfile.gettempdir())
    return base / f"toolcrib-console-{os.getuid()}" / "gateway"


def private_folder(path: Path) -> None:
    """Make the folder of the socket, or see that it is ours alone. Raises ToolcribError where it is another's."""
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise ToolcribError(
            f"{folder} is not a folder of this account alone: remove it, or set platforms.console.settings.socket"
        )


def packed(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode() + b"\n"
