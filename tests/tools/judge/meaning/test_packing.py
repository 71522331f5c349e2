"""Archives that are made and unpacked: programs and repositories in them are still recognised."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tools.judge.detect import examine
from tools.judge.meaning import Seen, Taint
from tools.judge.setting import Setting

HOME, PROJECT = "/home/dev", "/home/dev/p"
SETTING = Setting(home=HOME)
FILES: Mapping[str, str | None] = {"/usr/bin/rm": None, f"{PROJECT}/app": None}


class Disk:
    """A snapshot with files, and the session's earlier changes. A file that is None is a compiled program."""

    def __init__(
        self,
        files: Mapping[str, str | None] = FILES,
        copies: Mapping[str, str] | None = None,
        taints: Mapping[str, Taint] | None = None,
    ) -> None:
        self.files, self.copies, self.taints = files, copies or {}, taints or {}

    def inspect_path(self, path: str) -> Seen:
        if path not in self.files:
            return Seen("dir" if any(one.startswith(f"{path}/") for one in self.files) else "missing")
        text = self.files[path]
        return Seen("binary", None, self.taint(path)) if text is None else Seen("file", text, self.taint(path))

    def taint(self, path: str) -> Taint:
        return self.taints.get(path, Taint.NONE)

    def own_below(self, folder: str) -> list[str]:
        return [path for path in self.taints if path.startswith(f"{folder}/")]

    def copy_of(self, path: str) -> str:
        return self.copies.get(path, "")


@pytest.mark.parametrize(
    "command",
    [
        "tar cf t.tar -C /usr/bin rm && tar xf t.tar --transform s/rm/tidy/",
        "tar c -C /usr/bin rm | tar x",
        "(cd /usr/bin; echo rm | cpio -o) | cpio -i",
        "ar q t.a /usr/bin/rm; ar x t.a",
        "zip -j t.zip /usr/bin/rm && unzip t.zip",
        "7z a t.7z /usr/bin/rm; 7z x t.7z",
        "python3 -m zipfile -c t.zip /usr/bin/rm; python3 -m zipfile -e t.zip .",
    ],
)
def test_a_program_out_of_an_archive_stays_one(command: str) -> None:
    left = examine(command, PROJECT, None, Disk(), SETTING).files
    assert left[f"{PROJECT}/**"] & Taint.PROGRAM
    taints = dict.fromkeys([f"{PROJECT}/rm", f"{PROJECT}/tidy"], Taint.PROGRAM)
    disk = Disk({**FILES, f"{PROJECT}/tidy": None}, copies={f"{PROJECT}/tidy": f"{PROJECT}/rm"}, taints=taints)
    assert {one.key for one in examine("./tidy -rf d", PROJECT, None, disk, SETTING).findings} == {"opaque.changed"}


@pytest.mark.parametrize("command", ["rsync -a /usr/bin/rm tidy", "scp /usr/bin/rm tidy"])
def test_a_local_copy_is_one_whatever_made_it(command: str) -> None:
    assert "fs.recursive-delete" in {
        one.key for one in examine(f"{command}; ./tidy -rf d", PROJECT, None, Disk(), SETTING).findings
    }


def test_an_archive_of_the_project_is_none_of_programs() -> None:
    left = examine("tar czf d.tgz src app && tar xzf d.tgz -C out && out/app", PROJECT, None, Disk(), SETTING).files
    assert not any(taint & Taint.PROGRAM for taint in left.values())


@pytest.mark.parametrize(
    ("file", "text", "asked"),
    [
        ("d/.git/hooks/post-commit", "#!/bin/sh\ntrue\n", True),
        ("d/.git/config", '[core]\n\tfsmonitor = "x; false"\n', True),
        ("d/.git/config", "[core]\n\tbare = false\n", False),
    ],
)
def test_a_repository_that_an_archive_brought_is_asked_about_where_it_runs_code(file: str, text: str, asked: bool) -> None:
    unpacked = dict.fromkeys([f"{PROJECT}/d", f"{PROJECT}/d/src"], Taint.WRITTEN)
    disk = Disk({f"{PROJECT}/d/.git/HEAD": "ref: refs/heads/main\n", f"{PROJECT}/{file}": text}, taints=unpacked)
    for command in ("git -C d/src status", "cd d && git commit -qm x"):
        found = {one.key.partition("@")[0] for one in examine(command, PROJECT, None, disk, SETTING).findings}
        assert ("git.runs-code" in found) == asked
    assert not examine("git status", f"{PROJECT}/d", None, Disk(disk.files), SETTING).findings
