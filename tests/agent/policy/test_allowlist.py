"""Permanent grants: what the person answered `always` to is allowed in all sessions, and nothing else is."""

from __future__ import annotations

import asyncio
import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from agent.config import AllowlistEntry, append_allowlist, load_config, locked, set_value, state_dir
from agent.policy.allowlist import PermanentGrants
from toolcrib import ConfigError
from toolcrib.contract.store import Grant
from tools.approval.grants import MemoryGrants, covers, new_grant
from tools.judge.detect import detect_dangerous_command
from tools.judge.findings import Finding
from tools.judge.patterns import DANGEROUS_PATTERNS


def session(file: Path, project: str = "/srv/site") -> PermanentGrants:
    """Return the grants of a new session, as another process would read them."""
    return PermanentGrants(MemoryGrants(), file, project_root=project)


def always(*argv: str, root: str = "/srv") -> Grant:
    return new_grant("always", "command", root, argv=argv, by="me", at=1.0)


async def commands(grants: PermanentGrants) -> list[tuple[str, ...]]:
    return [grant.argv for grant in await grants.all("any")]


async def test_allow_permanently_writes_the_allowlist_and_holds_across_sessions(file: Path) -> None:
    """003-27"""
    file.write_text("# mine\nmax_turns: 3\n")
    await session(file).add(always("rm", "-r", "build"))
    assert load_config(file).command_allowlist == (AllowlistEntry(("rm", "-r", "build"), "/srv", 1),)
    assert "# mine" in file.read_text()
    later = session(file)
    [grant] = await later.all("another session")
    assert (grant.scope, grant.argv, grant.root, grant.session_id) == ("always", ("rm", "-r", "build"), "/srv", "")
    assert later.unconfirmed() == []


async def test_other_grants_stay_in_their_session(file: Path) -> None:
    """003-26"""
    grants = session(file)
    grant = new_grant("session", "fs.recursive-delete", "/srv", session_id="s")
    await grants.add(grant)
    assert (list(await grants.all("s")), list(await grants.all("t"))) == ([grant], [])
    assert not file.exists()
    assert await session(file).all("s") == []
    assert await grants.revoke(grant.id)
    counted = Grant("n", "uses", "k", "/", session_id="s", uses_left=1)
    await grants.add(counted)
    assert (await grants.spend("n"), await grants.spend("n")) == (True, False)


async def test_an_entry_that_no_answer_wrote_counts_only_once_confirmed(file: Path) -> None:
    await session(file).add(always("rm", "-r", "build"))
    append_allowlist(file, AllowlistEntry(("git", "push"), "/srv", 1))  # as any process of the person's user could
    grants = session(file)
    assert await commands(grants) == [("rm", "-r", "build")]
    assert grants.unconfirmed() == [AllowlistEntry(("git", "push"), "/srv", 1)]
    append_allowlist(file, AllowlistEntry(("unseen",), "/srv", 1))
    grants.confirm()
    assert await commands(grants) == [("rm", "-r", "build"), ("git", "push")]
    assert session(file).unconfirmed() == [AllowlistEntry(("unseen",), "/srv", 1)]


async def test_a_changed_folder_or_argument_is_another_entry(file: Path) -> None:
    await session(file).add(always("rm", "-r", "build"))
    file.write_text(file.read_text().replace("/srv", "/"))
    grants = session(file)
    assert await commands(grants) == []
    assert len(grants.unconfirmed()) == 1


async def test_an_entry_that_was_taken_out_may_not_come_back_unseen(file: Path) -> None:
    await session(file).add(always("rm", "-r", "build"))
    text = file.read_text()
    file.write_text("")
    session(file)
    file.write_text(text)
    grants = session(file)
    assert (await commands(grants), len(grants.unconfirmed())) == ([], 1)


async def test_an_answer_to_what_waits_for_confirmation_confirms_it(file: Path) -> None:
    append_allowlist(file, AllowlistEntry(("git", "push"), "/srv", 1))
    grants = session(file)
    await grants.add(always("git", "push"))
    assert grants.unconfirmed() == []
    assert await commands(session(file)) == [("git", "push")]


async def test_revoking_takes_it_out_of_the_file(file: Path) -> None:
    grants = session(file)
    first, again = always("rm", "-r", "build"), always("rm", "-r", "build")
    for grant in (first, again, always("git", "push")):
        await grants.add(grant)
    assert await grants.revoke(first.id)
    assert await commands(grants) == [("git", "push")]
    assert not await grants.revoke(again.id)
    assert await commands(session(file)) == [("git", "push")]


async def test_an_entry_that_no_answer_could_have_made_is_a_fault(file: Path) -> None:
    entries = [
        {"argv": ["sudo", "rm"], "cwd": "/srv", "version": 1},
        {"argv": ["echo", "$HOME"], "cwd": "/srv", "version": 1},
        {"argv": ["git", "push"], "cwd": "/srv", "version": 7},
    ]
    set_value(file, "command_allowlist", entries)
    grants = session(file)
    assert len(grants.faults) == 3
    assert "one plain command" in grants.faults[0].reason
    grants.confirm()
    assert await commands(grants) == []


@pytest.mark.parametrize(
    "grant", [always("sudo", "rm"), always("echo", "a b"), always(), always("git", root=""), always("git", root="relative")]
)
async def test_what_may_not_be_permanent_is_not_granted(file: Path, grant: Grant) -> None:
    grants = session(file)
    with pytest.raises((ConfigError, ValueError)):
        await grants.add(grant)
    assert await commands(grants) == []
    assert not file.exists()


async def test_what_cannot_be_written_is_not_granted(file: Path) -> None:
    grants = session(file)
    file.write_text("tols: 3\n")
    with pytest.raises(ConfigError):
        await grants.add(always("git", "push"))
    assert await commands(grants) == []
    with pytest.raises(ConfigError):
        session(file)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": {"x": [3]}}', '{"files": []}', "\x00"])
async def test_state_that_cannot_be_understood_confirms_nothing(file: Path, text: str) -> None:
    await session(file).add(always("git", "push"))
    state = state_dir() / "allowlist.json"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    state.write_text(text)
    grants = session(file)
    assert (await commands(grants), len(grants.unconfirmed())) == ([], 1)


async def test_each_configuration_has_its_own_confirmations(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    await session(one).add(always("git", "push"))
    two.write_text(one.read_text())
    assert await commands(session(two)) == []
    session(two).confirm()
    assert await commands(session(one)) == await commands(session(two)) == [("git", "push")]
    assert len(json.loads((state_dir() / "allowlist.json").read_text())["files"]) == 2


async def test_grants_of_another_principal_stay_in_the_store(file: Path) -> None:
    """command_allowlist belongs to the local user."""
    inner = MemoryGrants()
    grants = PermanentGrants(inner, file)
    theirs = new_grant("always", "command", "/srv", argv=("make",), principal="telegram:7")
    mine = always("make")
    assert theirs.id != mine.id
    for grant in (theirs, mine):
        await grants.add(grant)
    assert load_config(file).command_allowlist == (AllowlistEntry(("make",), "/srv", 1),)
    assert list(await grants.all("s")) == [mine]
    assert list(await grants.all("s", "telegram:7")) == [theirs]
    assert list(await grants.all()) == [mine, theirs]
    assert await grants.revoke(theirs.id)
    assert list(await grants.all()) == [mine]


async def test_a_lock_of_another_process_stops_no_loop(file: Path) -> None:
    grants = session(file)
    await grants.add(always("make"))
    with locked(file):
        adding = asyncio.ensure_future(grants.add(always("git", "push")))
        for _ in range(3):
            await asyncio.sleep(0)
        assert await commands(grants) == [("make",)]
        assert not adding.done()
    await adding
    assert await commands(grants) == [("make",), ("git", "push")]


# -- plain text, as the specification writes it ------------------------------------------------------------------------


async def test_a_command_in_plain_text_is_bound_to_the_project_and_counts_once_confirmed(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """003-27"""
    file.write_text("command_allowlist: [rm -rf build]\n")
    grants = session(file)
    assert "'rm -rf build' is plain text, read as `rm -rf build` in /srv/site" in caplog.text
    assert await commands(grants) == []
    assert [grants.describe(entry) for entry in grants.unconfirmed()] == ["`rm -rf build` in /srv/site"]
    grants.confirm()
    assert [(grant.argv, grant.root) for grant in session(file).permanent()] == [(("rm", "-rf", "build"), "/srv/site")]
    assert session(file).unconfirmed() == []


async def test_what_was_confirmed_in_one_project_counts_in_no_other(file: Path) -> None:
    """003-27: each project needs its own confirmation, and keeps those of other projects."""
    file.write_text("command_allowlist: [rm -rf build]\n")
    session(file).confirm()
    other = session(file, "/srv/other")
    assert (await commands(other), len(other.unconfirmed())) == ([], 1)
    assert await commands(session(file)) == [("rm", "-rf", "build")]
    other.confirm()
    assert [session(file, root).permanent()[0].root for root in ("/srv/site", "/srv/other")] == ["/srv/site", "/srv/other"]
    file.write_text("")
    session(file)
    file.write_text("command_allowlist: [rm -rf build]\n")
    assert await commands(session(file)) == []


@pytest.mark.parametrize("text", ["recursive delete", DANGEROUS_PATTERNS[0][0]])
def test_a_description_stands_for_what_its_pattern_means_below_the_project(file: Path, text: str) -> None:
    """003-23, 003-27"""
    set_value(file, "command_allowlist", [text])
    grants = session(file, "/home/me/site")
    assert [grants.describe(entry) for entry in grants.unconfirmed()] == [
        "everything that matches 'recursive delete', below /home/me/site/"
    ]
    assert grants.permanent() == []
    grants.confirm()
    [grant] = session(file, "/home/me/site").permanent()

    def asks(command: str, cwd: str = "/home/me/site") -> bool:
        return not all(covers(grant, finding, session_id="s", cwd=cwd) for finding in detect_dangerous_command(command, cwd))

    assert not asks("rm -rf build")
    assert not asks("rm -rf /home/me/site/a && rm -r b/c")
    for command in ("rm -rf ../other", "rm -rf .", "rm -rf $x", "rm -rf /", "git push --force", "rm -rf build; curl x | sh"):
        assert asks(command), command
    assert asks("rm -rf build", "/home/me/other")


def test_every_description_either_counts_or_says_why_not(file: Path) -> None:
    """003-23, 003-27: no description makes the file invalid."""
    descriptions = [description for _, description in DANGEROUS_PATTERNS]
    set_value(file, "command_allowlist", descriptions)
    grants = session(file)
    grants.confirm()
    counting = {grant.key.removeprefix("pattern@") for grant in grants.permanent()}
    refused = {fault.entry.text for fault in grants.faults}
    assert counting | refused == set(descriptions)
    assert {"recursive delete", "rewrites shared history", "stops a service"} <= counting
    assert {"runs what it downloads", "fork bomb", "writes a disk"} <= refused


def test_a_pattern_that_somebody_appended_is_known_by_its_description(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """003-23, 003-27"""
    monkeypatch.setattr("tools.approval.described.DANGEROUS_PATTERNS", [*DANGEROUS_PATTERNS, (r"\bdeployctl\b", "deploys")])
    file.write_text("command_allowlist: [deploys]\n")
    session(file).confirm()
    [grant] = session(file).permanent()
    found = Finding("pattern@deploys", "ask", "deploys", "deployctl", argv=("deployctl",), plain=True, cwd="/srv/site")
    assert covers(grant, found, session_id="s", cwd="/srv/site")
    assert not covers(grant, replace(found, key="pattern@else"), session_id="s", cwd="/srv/site")
    assert not covers(grant, replace(found, cwd="/srv"), session_id="s", cwd="/srv")


@pytest.mark.parametrize("text", ["sudo rm x", "rm -rf *", "a | b", "echo $HOME", "", "x\ny", "fork bomb"])
async def test_text_that_can_never_count_is_a_fault_of_its_own(file: Path, text: str) -> None:
    """003-27: the file is still read, with its other entries."""
    set_value(file, "command_allowlist", [text, "make clean"])
    grants = session(file)
    assert [fault.entry.text for fault in grants.faults] == [text]
    assert "remove the entry" in grants.faults[0].reason
    grants.confirm()
    assert await commands(grants) == [("make", "clean")]


def test_text_is_bound_to_nothing_where_there_is_no_project(file: Path) -> None:
    file.write_text("command_allowlist: [make clean]\n")
    grants = session(file, "")
    assert "there is no project here" in grants.faults[0].reason


async def test_text_is_revoked_and_the_entry_that_says_the_same_in_full_is_not(file: Path) -> None:
    set_value(file, "command_allowlist", ["make clean", {"argv": ["make", "clean"], "cwd": "/srv/site", "version": 1}])
    session(file).confirm()
    grants = session(file)
    [text, full] = grants.permanent()
    assert await grants.revoke(text.id)
    assert load_config(file).command_allowlist == (AllowlistEntry(("make", "clean"), "/srv/site", 1),)
    assert [grant.id for grant in session(file).permanent()] == [full.id]


async def test_where_the_links_of_a_command_led_is_kept_with_it(file: Path) -> None:
    """003-27: in another session the entry is bound to the same targets, and an entry without links to its own paths"""
    linked = new_grant("always", "command", "/srv", argv=("rm", "build"), links={"/srv/build": "/data/build"})
    await session(file).add(linked)
    await session(file).add(always("rm", "build"))
    kept = await session(file).all("any")
    assert [grant.links for grant in kept] == [(("/srv/build", "/data/build"),), ()]
    assert len({grant.id for grant in kept}) == 2
    assert load_config(file).command_allowlist[0].links == ("/srv/build", "/data/build")
    assert await session(file).revoke(kept[0].id)
    assert [grant.links for grant in await session(file).all("any")] == [()]


@pytest.mark.parametrize("links", ["[/srv/build]", "[build, /data/build]", "{/srv/build: /data/build}", "[/a, 5]"])
def test_links_of_an_entry_are_pairs_of_paths(file: Path, links: str) -> None:
    file.write_text(f"command_allowlist:\n  - {{argv: [rm, build], cwd: /srv, version: 1, links: {links}}}\n")
    with pytest.raises(ConfigError):
        load_config(file)
