"""Paths with ``..`` after a link lead to the folder above the link's target, except for ``cd``."""

from __future__ import annotations

import pytest

from tools.judge.detect import examine
from tools.judge.meaning import Seen
from tools.judge.setting import Setting

HOME, PROJECT = "/home/dev", "/home/dev/p"
FILES = {"/home/dev/photos/x.sh": "rm -rf d\n", f"{PROJECT}/x.sh": "true\n"}
LINK, THERE = f"{PROJECT}/l", "/home/dev/photos/2024"


class Linked:
    """A snapshot with one link: ``l`` in the project leads to a folder outside of it."""

    def real(self, path: str) -> str:
        return THERE + path[len(LINK) :] if f"{path}/".startswith(f"{LINK}/") else path

    def inspect_path(self, path: str) -> Seen:
        text = FILES.get(self.real(path))
        return Seen("missing") if text is None else Seen("file", text)


def found(command: str) -> dict[str, tuple[str, ...]]:
    findings = examine(command, PROJECT, None, Linked(), Setting(home=HOME)).findings
    return {finding.key: finding.paths for finding in findings}


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("rm -rf l/../sub", "/home/dev/photos/sub"),
        ("rm -rf ./l/.//../sub", "/home/dev/photos/sub"),
        (f"rm -rf {PROJECT}/l/../../sub", "/home/dev/sub"),
        ("mv l m; rm -rf m/../sub", "/home/dev/photos/sub"),
        ("ln -s /srv/a/b q && rm -rf q/../sub", "/srv/a/sub"),
        ("python3 -c \"import shutil; shutil.rmtree('l/../sub')\"", "/home/dev/photos/sub"),
        ("rm -rf x/../sub", f"{PROJECT}/sub"),
        ("rm -rf x/y/../../sub", f"{PROJECT}/sub"),
        ("cd l/.. && rm -rf sub", f"{PROJECT}/sub"),
        ("cd -P l/.. && rm -rf sub", "/home/dev/photos/sub"),
    ],
)
def test_a_path_is_what_the_system_makes_of_it(command: str, path: str) -> None:
    assert found(command)["fs.recursive-delete"] == (path,)


@pytest.mark.parametrize("command", ["bash l/../x.sh", ". l/../x.sh"])
def test_a_script_behind_a_link_is_read_where_it_lies(command: str) -> None:
    assert "fs.recursive-delete" in found(command)


@pytest.mark.parametrize(
    "command", ["echo x > l/../../.bashrc", "dd if=x of=l/../../.bashrc", "tee l/../../.bashrc", "cp x l/../../.bashrc"]
)
def test_a_write_behind_a_link_is_judged_where_it_lands(command: str) -> None:
    assert "persist.start-file" in found(command)


def test_a_root_behind_a_link_is_a_root() -> None:
    assert "fs.recursive-delete-root" in found("ln -s /usr/lib q; rm -rf q/..")
