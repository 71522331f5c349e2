"""Rules: commands that set HOME to a folder with settings written by the session."""

from __future__ import annotations

import posixpath

from tools.judge.file_view import Looks
from tools.judge.paths import path_rules
from tools.judge.rules.environment import NAMES, assigned
from tools.judge.table import ActView, Test, rule


def _homes(view: ActView) -> list[str]:
    """Return the absolute folders that the command sets as HOME."""
    given = [value.text for name, value in assigned(view) if name == "HOME" and value.known]
    return [posixpath.normpath(posixpath.join(cwd, text)) for text in given if text for cwd in view.act.cwds or ("/",)]


def _has_settings(view: ActView, looks: Looks) -> bool:
    """Return whether the session wrote files below the new HOME that programs read from a home as settings or start files."""
    return any(
        row.key.startswith("persist.")
        for home in _homes(view)
        for path in looks.written_below(home)
        for row in path_rules(f"~{path[len(home.rstrip('/')) :]}", "write")
    )


RULES = (
    rule(
        "code.loading-env",
        "ask-once",
        NAMES,
        Test(lambda view: any(name == "HOME" for name, _ in assigned(view))),
        "makes other programs use settings that this session wrote",
        yes=(
            "mkdir c; echo x > c/.gitconfig; HOME=$PWD/c git x",
            "echo x > c/.gdbinit; HOME=c gdb -batch",
            "mkdir -p h/.config/git; cp x h/.config/git/config; env HOME=h git x",
            "echo x > /tmp/h/.npmrc; export HOME=/tmp/h",
        ),
        no=("HOME=c git x", "echo x > c/out.txt; HOME=c git x", "echo x > .gitconfig; HOME=c git x", "HOME=/tmp/h npm test"),
        at=lambda view: "HOME",
        dry=False,
        seen=_has_settings,
    ),
)
