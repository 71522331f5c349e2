"""The user's own completion file in the folder that the shell reads: write it and remove it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from toolcrib.contract.errors import ToolcribError

_MARK = "toolcrib completion"
"""Text in each completion file of toolcrib, including one that a user created from the printed script."""
_ABOUT = "# Written by `toolcrib completion --install`. The shell loads the completions when it first needs them."
_FILES: Mapping[str, str] = {
    "bash": f"""\
{_ABOUT}
eval "$(toolcrib completion bash 2>/dev/null)"
""",
    "zsh": f"""\
#compdef toolcrib
{_ABOUT}
eval "$(toolcrib completion zsh 2>/dev/null)"
_bash_complete -o default -F _toolcrib
""",
    "fish": f"""\
{_ABOUT}
toolcrib completion fish 2>/dev/null | source
""",
}
"""Shell -> content of its file, which runs the toolcrib that is installed when the shell loads it."""


def shell_of_person() -> str:
    """Return the shell that $SHELL names. Raises ToolcribError if completion does not support it."""
    name = Path(os.environ.get("SHELL", "")).name
    if name not in _FILES:
        raise ToolcribError(f"$SHELL is {name!r}; give the shell: toolcrib completion --install bash, zsh or fish")
    return name


def install(shell: str) -> list[str]:
    """Write the file, and return lines with its path and any further steps. Raises ToolcribError."""
    path = _path(shell)
    before = _read(path)
    if before == _FILES[shell]:
        return [f"{path} already exists", *_needs(shell, path)]
    _refuse_anothers(path, before)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_FILES[shell], encoding="utf-8")
    except OSError as error:
        raise ToolcribError(f"{path} cannot be written: {error.strerror or error}") from error
    return [f"{'wrote' if before is None else 'replaced'} {path}", *_needs(shell, path)]


def uninstall(shell: str) -> list[str]:
    """Remove the file, and return a line with its path. Raises ToolcribError."""
    path = _path(shell)
    before = _read(path)
    if before is None:
        return [f"nothing to remove: {path} does not exist"]
    _refuse_anothers(path, before)
    try:
        path.unlink()
    except OSError as error:
        raise ToolcribError(f"{path} cannot be removed: {error.strerror or error}") from error
    return [f"removed {path}; open shells keep the completions"]


def _path(shell: str) -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    if shell == "bash":
        return Path(os.environ.get("BASH_COMPLETION_USER_DIR") or data / "bash-completion") / "completions" / "toolcrib"
    if shell == "zsh":
        return data / "zsh" / "site-functions" / "_toolcrib"
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "fish" / "completions" / "toolcrib.fish"


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ToolcribError(f"{path} cannot be read: {error.strerror or error}") from error


def _refuse_anothers(path: Path, text: str | None) -> None:
    if text is not None and _MARK not in text:
        raise ToolcribError(f"{path} was not written by toolcrib; move it away first")


def _needs(shell: str, path: Path) -> list[str]:
    """Return further steps that the shell needs to read the file."""
    again = "new shells use it"
    if shell == "bash":
        return [f"{again} if the package bash-completion is loaded; else add to ~/.bashrc: source {path}"]
    if shell == "fish":
        return [again]
    rc = Path(os.environ.get("ZDOTDIR") or Path.home()) / ".zshrc"
    if str(path.parent) in (_read(rc) or "") or str(path.parent) in os.environ.get("FPATH", "").split(":"):
        return [again]
    return [
        f"add to {rc}, before compinit if {rc} calls it:",
        f"  fpath=({path.parent} $fpath); autoload -U compinit; compinit",
    ]
