"""The result of an edit names attributes that it could not keep."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.environments import open_environment

LOST = "extended attributes and an ACL, if it had any, could not be kept"


@pytest.fixture
def theirs(call: Any, sshd: Any) -> Iterator[Path]:
    """A folder that an account without rights owns, used by the file tools, and a file there with an attribute that root set."""
    folder = sshd.folder / "home" / "edits"
    folder.mkdir()
    file = folder / "file"
    file.write_text("one\ntwo\n")
    for path in (folder, file):
        shutil.chown(path, sshd.user)
    os.setxattr(file, "security.note", b"root's")
    environment = open_environment("ssh", cwd=str(folder), **sshd.options)
    call.scope.open_environment = lambda: environment
    yield folder
    asyncio.run(environment.close())
    shutil.rmtree(folder)


def test_an_attribute_that_only_root_may_give(call: Any, theirs: Path) -> None:
    done = call("patch", path="file", old="two", new="three")
    assert done.data["notes"] == [f"{theirs}/file: {LOST}"]
    assert (theirs / "file").read_text() == "one\nthree\n"
    assert LOST not in str(call("patch", path="file", old="three", new="four").data)
    os.setxattr(theirs / "file", "security.note", b"again")
    done = call("write_file", path="file", content="new")
    assert done.data["note"] == LOST
    assert LOST in done.views["model"]


def test_a_file_with_other_names_keeps_it(call: Any, theirs: Path) -> None:
    """The file is written in place."""
    (theirs / "other").hardlink_to(theirs / "file")
    assert call("patch", path="file", old="two", new="three").data["notes"] == []
    assert (theirs / "other").read_text() == "one\nthree\n"
    assert os.getxattr(theirs / "other", "security.note") == b"root's"
