"""Decisions at the console: no session's command can decide, however it connects; the user can after typing the passphrase."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import shlex
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.gateway.pairing import Pairings
from agent.policy import passphrase
from tests.plugins.console.test_console_hostile import ConsoleHouse, Terminal
from tests.plugins.console.test_console_hostile import house as house
from toolcrib import ExecRequest
from tools.environments.local.environment import LocalEnvironment

WORDS = "four cranes lift paper"
CLIENT = Path(__file__).with_name("hostile_client.py")


class Asked:
    """An owner's terminal with an open question: whether to remove ``folder``."""

    def __init__(self, house: ConsoleHouse, terminal: Terminal, folder: Path) -> None:
        self.house = house
        self.terminal = terminal
        self.folder = folder
        self.message = self.ticket = ""

    async def ask(self) -> None:
        self.terminal.line({"text": f"rm -rf {self.folder}"})
        shown = await self.terminal.next_line("text", "/approve")
        while not shown["buttons"]:
            shown = await self.terminal.next_line("text", "/approve")
        self.message = str(shown["id"])
        [record] = await self.house.store.tickets.pending()
        self.ticket = record.ticket.id

    async def is_open(self) -> bool:
        record = await self.house.store.tickets.get(self.ticket)
        return record is not None and record.state == "pending" and self.folder.is_dir()


@asynccontextmanager
async def asked(house: ConsoleHouse) -> AsyncIterator[Asked]:
    folder = house.folder / "build"
    (folder / "kept").mkdir(parents=True)
    async with house.running(getpass.getuser()), house.terminal() as terminal:
        found = Asked(house, terminal, folder)
        await found.ask()
        yield found


HOSTILE = {
    "a program": "@",
    "after a while": "@ patient",
    "a descriptor that was handed over": "@ handed-over; sleep 0.3",
    "double-forked": "@ double-forked; until [ -e tried ]; do sleep 0.02; done",
    "in a session of its own": "setsid -w @",
    "an orphan": "setsid -f @; until [ -e tried ]; do sleep 0.02; done",
    "an orphan without variables": "env -i setsid -f @; until [ -e tried ]; do sleep 0.02; done",
    "an orphan after its shell": "setsid -f sh -c 'sleep 0.3; exec @'; kill -9 $$",
    "without variables": "env -i @",
    "a job in the background": "@ & wait",
    "nohup": "nohup @ & wait",
    "a nested shell": "bash -c 'bash -c \"@; true\"'",
    "a login shell": "bash -lc '@'",
    "a coprocess": "coproc { exec @; }; wait",
    "in the place of the shell": "exec @",
    "under another name": "cp $(command -v python3) ./innocent 2>/dev/null; (exec -a '-bash' @)",
    "with raised limits": "ulimit -Hx unlimited; ulimit -Sx unlimited; @",
    "in a user namespace": "unshare -Ur @",
    "on a terminal of its own": "script -qec '@' /dev/null",
    "in tmux": "tmux -S $PWD/t -f /dev/null new -d 'env -u TOOLCRIB_BELOW @'; until [ -e tried ]; do sleep 0.02; done",
    "with another home": "HOME=$PWD TOOLCRIB_STATE=$PWD/other @",
    "perl": """perl -MIO::Socket::UNIX -e '$s = IO::Socket::UNIX->new(Peer => shift) or die; print $s `@ print`; $s->shutdown(1);
        print <$s>' "$socket" """,
    "perl, gone from its parents": """perl -MIO::Socket::UNIX -MPOSIX -e 'exit if fork; setsid; exit if fork;
        $s = IO::Socket::UNIX->new(Peer => shift) or die; print $s `@ print`; $s->shutdown(1); while (<$s>) {}
        open F, ">tried"; close F' "$socket"; until [ -e tried ]; do sleep 0.02; done""",
    "curl": '@ print | curl -sS -m 1 --unix-socket "$socket" -T - telnet://localhost || true',
    "socat": '@ print | socat - UNIX-CONNECT:"$socket"',
    "nc": '@ print | nc -q 1 -U "$socket"',
    "the console itself": "cd %root; @ print | %python -c 'import argparse; from plugins.console import client as c; "
    'p = argparse.ArgumentParser(); c.configure(p); c.run(p.parse_args())\' --socket "$socket"',
}


def _can_run(line: str) -> bool:
    return all(shutil.which(one) for one in ("curl", "perl", "tmux", "socat", "nc", "script", "unshare") if f"{one} " in line)


@pytest.mark.parametrize("names", [list(HOSTILE)[at::2] for at in range(2)], ids=["one half", "other half"])
async def test_no_command_of_a_session_decides_whatever_it_knows(house: ConsoleHouse, root: Path, names: list[str]) -> None:
    passphrase.set_passphrase(WORDS)
    code = await Pairings(house.store, "console").offer("owner")
    async with asked(house) as found:
        environment = LocalEnvironment(str(house.folder))
        given, told = house.folder / "given.json", house.folder / "tried"
        about = {"ticket": found.ticket, "message": found.message, "passphrase": WORDS, "folder": str(found.folder)}
        given.write_text(json.dumps({**about, "socket": str(house.path), "told": str(told), "code": code}))
        heard, client = list(house.asked), shlex.join([sys.executable, str(CLIENT), str(given)])
        for name in names:
            line = HOSTILE[name].replace("%root", str(root)).replace("%python", sys.executable)
            if not _can_run(line):
                continue
            told.unlink(missing_ok=True)
            line = f"cd {shlex.quote(str(house.folder))}; socket={shlex.quote(str(house.path))}\n{line}".replace("@", client)
            outcome = await environment.execute(ExecRequest(line, timeout=60))
            async with asyncio.timeout(60):
                while b"this terminal is read-only" not in outcome.stdout.head and not told.exists():
                    await asyncio.sleep(0.02)
            assert await found.is_open(), name
            assert house.asked == heard, name
        assert not await Pairings(house.store, "console").people()
        assert [record.chat for record in await house.store.mail.chats()] == [f"{getpass.getuser()}/main"]
        await environment.close()
        found.terminal.line({"text": "/approvals"})  # the attack did not replace the chat's display
        await found.terminal.next_line("text", found.ticket[:8])
        found.terminal.line({"unlock": WORDS})
        await found.terminal.next_line("notice", "unlocked")
        found.terminal.line({"press": [found.message, "y"]})
        await found.terminal.next_line("text", "ran it")
        assert not found.folder.exists()


LOCKED: dict[str, Any] = {
    "/approve": {"text": "/approve"},
    "/approve with the id": {"text": "/approve @ticket"},
    "/approve for the session": {"text": "/approve @ticket session"},
    "/approve with a bot's name": {"text": "/approve@toolcrib"},
    "/APPROVE": {"text": " /APPROVE "},
    "yes": {"text": "yes"},
    "1": {"text": "1"},
    "y.": {"text": "Y."},
    "2": {"text": "2"},
    "yes as a reply": {"text": "yes", "reply_to": "@message"},
    "2 as a reply": {"text": "2", "reply_to": "@message"},
    "a button": {"press": ["@message", "y"]},
    "the session's button": {"press": ["@message", "s"]},
    "unlocked by its own word": {"text": "/approve", "locked": "", "is_unlocked": True},
    "the passphrase in the text": {"text": f"/approve @ticket {WORDS}"},
    "a setting": {"text": "/busy interrupt"},
    "a job that resumes": {"text": "/jobs resume 4711"},
}


async def test_a_person_who_did_not_type_the_passphrase_decides_nothing_but_no(house: ConsoleHouse) -> None:
    async with asked(house) as found:
        found.terminal.line({"press": [found.message, "y"]})
        await found.terminal.next_line("notice", "gateway passphrase")
        found.terminal.line({"unlock": ""})
        await found.terminal.next_line("problem", "gateway passphrase")
        passphrase.set_passphrase(WORDS)
        for name, tried in LOCKED.items():
            line = json.dumps(tried).replace("@ticket", found.ticket).replace("@message", found.message)
            found.terminal.line(line.encode())
            kind = "notice" if "press" in tried else "text"
            told = await found.terminal.next_line(kind, "")
            while ":unlock" not in told[kind]:
                told = await found.terminal.next_line(kind, "")
            assert await found.is_open(), name
        found.terminal.line({"text": "/deny not now"})
        await found.terminal.next_line("text", "not now")
        assert found.folder.is_dir()


async def test_a_passphrase_unlocks_the_connection_that_it_was_typed_in(house: ConsoleHouse) -> None:
    passphrase.set_passphrase(WORDS)
    async with asked(house) as found:
        async with house.terminal("second") as other:
            other.line({"unlock": WORDS})
            await other.next_line("notice", "unlocked")
            other.line({"text": "/busy queue"})
            await other.next_line("text", "during a run: queue")
        async with house.terminal("main") as again:
            again.line({"press": [found.message, "y"]})
            await again.next_line("notice", ":unlock")
            again.line({"unlock": WORDS})
            await again.next_line("notice", "unlocked")
            again.line({"press": [found.message, "y"]})
            await again.next_line("text", "ran it")
    assert not found.folder.exists()


async def test_wrong_passphrases_end_the_connection_and_are_kept_nowhere(
    house: ConsoleHouse, caplog: pytest.LogCaptureFixture
) -> None:
    passphrase.set_passphrase(WORDS)
    async with house.running(getpass.getuser()), house.terminal() as terminal:
        for _ in range(3):
            terminal.line({"unlock": "four cranes lift papers"})
        for _ in range(3):
            await terminal.next_line("problem", "is not the passphrase")
        with pytest.raises(AssertionError, match="the end came"):
            await terminal.next_line("text", "never")
        await house.answered()
    assert "cranes" not in caplog.text
    kept = [path for path in Path(os.environ["TOOLCRIB_STATE"]).rglob("*") if path.is_file() and b"cranes" in path.read_bytes()]
    assert kept == []
    assert "cranes" not in json.dumps(house.asked)


async def test_a_pairing_s_code_counts_after_the_passphrase_and_is_answered_by_that_alone(house: ConsoleHouse) -> None:
    passphrase.set_passphrase(WORDS)
    async with house.running("somebody-else"), house.terminal() as terminal:
        terminal.line({"text": "hello"})
        await terminal.next_line("notice", "may not chat here")
        code = await Pairings(house.store, "console").offer("owner")
        terminal.line({"text": code})
        await terminal.next_line("text", ":unlock")
        terminal.line({"unlock": WORDS})
        await terminal.next_line("notice", "unlocked")
        terminal.line({"text": code})
        await terminal.next_line("text", "You are paired.")
        terminal.line({"text": "hello"})
        await terminal.next_line("text", "re hello")
    assert house.asked == ["hello"]


def test_another_state_folder_has_another_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from plugins.console.place import socket_path

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "one"))
    first = socket_path()
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "." / "one"))
    assert socket_path() == first
    assert first.parent.parent == tmp_path
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "two"))
    assert socket_path() != first
    assert socket_path("/else/where") == Path("/else/where")
