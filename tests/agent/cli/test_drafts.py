"""The file of a draft: text that was typed and not sent."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

from agent.cli.drafts import KeptDraft


def test_a_draft_is_private_written_where_it_changed_and_removed_when_it_is_empty(tmp_path: Path) -> None:
    async def type_on() -> None:
        kept, file = KeptDraft(tmp_path / "drafts"), tmp_path / "drafts" / "abc"
        await kept.keep("abc", "half a thought")
        assert file.read_text() == "half a thought"
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        before = file.stat().st_ino
        await kept.keep("abc", "half a thought")
        assert file.stat().st_ino == before, "what is the same is not written again"
        assert KeptDraft(tmp_path / "drafts").read("abc") == "half a thought"
        await kept.keep("def", "half a thought")
        assert [one.name for one in file.parent.iterdir()] == ["def"], "it goes with the session"
        KeptDraft(tmp_path / "drafts").keep_now("abc", "left by another")
        assert kept.read("abc") == "left by another"
        assert [one.name for one in file.parent.iterdir()] == ["abc"]
        await kept.keep("abc", "")
        assert list(file.parent.iterdir()) == []

    asyncio.run(type_on())


def test_what_cannot_be_kept_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "drafts").write_text("a file, no folder")
    kept = KeptDraft(tmp_path / "drafts")
    kept.keep_now("abc", "x")
    assert kept.read("abc") == ""
    assert KeptDraft(None).read("abc") == ""
    assert KeptDraft(tmp_path).read("../abc") == ""


def test_old_drafts_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    os.utime(tmp_path / "old", (0, time.time() - 90 * 86_400))
    (tmp_path / "abc").symlink_to("/etc/hostname")
    assert KeptDraft(tmp_path).read("abc") == ""
    assert not (tmp_path / "old").exists()


def test_the_last_draft_of_a_folder_is_found_once_its_process_has_ended(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    KeptDraft(tmp_path / "drafts", "/here").keep_now("abc", "half a thought")
    later = KeptDraft(tmp_path / "drafts", "/here")
    assert later.left_here() == "", "this process has not ended"
    (mark,) = (tmp_path / "drafts").glob("in*")
    mark.rename(mark.with_name(mark.name.replace(f"p{os.getpid()}", f"p{ended.pid}")))
    assert later.left_here() == "abc"
    assert KeptDraft(tmp_path / "drafts", "/there").left_here() == ""
    later.adopt("abc", "def")
    assert later.left_here() == ""
    assert later.read("def") == "half a thought"
    later.keep_now("def", "")
    assert list((tmp_path / "drafts").iterdir()) == []
