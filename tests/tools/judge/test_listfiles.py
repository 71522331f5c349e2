"""Lists of files that programs read from a file or from their input."""

from __future__ import annotations

import shlex

import pytest

from tools.judge.listfiles import listed_in
from tools.judge.meaning.act import Act
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import Value


@pytest.mark.parametrize(
    "command",
    [
        "tar cf x.tar -T list",
        "tar cfT x.tar list",
        "tar cf x.tar --files-from=list",
        "rsync --files-from list / x",
        "sort --files0-from=list",
        "git add --pathspec-from-file=list",
        "zip x.zip -i@list",
        "7z a x.7z @list",
        "cpio -o",
        "zip x.zip -@",
        "git hash-object --stdin-paths",
    ],
)
def test_their_paths_are_known(command: str) -> None:
    words = shlex.split(command)
    act = Act(words[0], [Value(word) for word in words], cwds=("/w",), stdin=Value("a\nb c\n"))
    text = "a\0b c\0" if "files0" in command else "a\nb c\n"
    listed = listed_in(act, "/home/dev", lambda path: Seen("file", text) if path == "/w/list" else Seen("missing"))
    assert [value.text for value in listed] == ["a", "b c"]


@pytest.mark.parametrize("command", ["tar cf x.tar list", "sort list", "git add list", "zip x.zip list", "cat list"])
def test_other_files_are_no_lists(command: str) -> None:
    words = shlex.split(command)
    act = Act(words[0], [Value(word) for word in words], cwds=("/w",), stdin=Value("a"))
    assert list(listed_in(act, "", lambda path: Seen("file", "a"))) == []
