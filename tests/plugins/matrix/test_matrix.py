"""Matrix on a real Synapse, through the whole gateway, as users see it."""

from __future__ import annotations

import asyncio
import struct
import sys
import zlib
from typing import Any

import pytest

from agent.gateway.forms import body_of
from tests.plugins.matrix.conftest import MatrixHouse, Person, line_of
from toolcrib.chat import Chat, OutFile


async def test_a_message_is_answered_and_the_answer_grows_by_edits(house: MatrixHouse) -> None:
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot)
            await alice.says(room, "slow one two three four five six")
            await alice.until(lambda: alice.texts(room) == ["re slow one two three four five six"])
            [shown] = alice.messages(room)
            assert len(shown["forms"]) > 2
            assert shown["m.mentions"] == {}
            assert house.asked == ["slow one two three four five six"]


async def test_files_come_and_go(house: MatrixHouse) -> None:
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line = line_of(gateway)
            room = await alice.room(house.bot)
            await _gives(alice, room, "notes.txt", b"buy milk", "text/plain")
            await alice.until(lambda: alice.texts(room))
            [said] = house.asked
            assert "notes.txt came with this message" in said
            [kept] = (house.folder.parent).rglob("*notes.txt")
            assert kept.read_bytes() == b"buy milk"
            await _gives(alice, room, "dot.png", _png(), "image/png", "what is this")
            await alice.until(lambda: len(house.asked) == 2)
            assert house.asked[1] == "what is this"

            report = house.folder / "report.csv"
            report.write_bytes(b"a,b\n" * 1000)
            files = [OutFile(report, "report.csv", "text/csv")]
            await line.outbox.put(room, "report", body_of(Chat(room), "The report:", files=files))
            await alice.until(lambda: alice.messages(room)[-1].get("url"))
            shown = alice.messages(room)[-1]
            assert (shown["msgtype"], shown["filename"], shown["info"]["size"]) == ("m.file", "report.csv", 4000)
            assert await alice.downloads(shown["url"]) == report.read_bytes()
            assert "The report:" in alice.texts(room)


async def _gives(person: Person, room: str, name: str, data: bytes, media_type: str, caption: str = "") -> None:
    url = await person.uploads(name, data, media_type)
    kind = "m.image" if media_type.startswith("image/") else "m.file"
    info = {"mimetype": media_type, "size": len(data)}
    await person.says(room, caption or name, msgtype=kind, filename=name, url=url, info=info)


def _png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")


async def _asked(person: Person, house: MatrixHouse, room: str, name: str) -> dict[str, Any]:
    """Create a folder, ask the bot to delete it, and return the bot's question with all its buttons."""
    (house.folder / name).mkdir()
    await person.says(room, f"rm -rf {house.folder}/{name}")
    found: dict[str, Any] = await person.until(lambda: [one for one in person.messages(room) if f"/{name}" in one["body"]][-1:])
    question = found[0]
    await person.until(lambda: {"👍", "👎"} <= set(person.reactions(question["id"])))
    return question


async def test_an_approval_is_granted_by_a_reaction_of_who_may(house: MatrixHouse) -> None:
    """003-25"""
    async with house.person("alice") as alice, house.person("mallory") as mallory, house.person("eve") as eve:
        house.configure(alice.id, mallory.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot, is_direct=False)
            for other in (mallory, eve):
                await alice.ask("POST", f"v3/rooms/{room}/invite", {"user_id": other.id})
                await other.ask("POST", f"v3/join/{room}", {})
            (house.folder / "build").mkdir()
            await alice.says(room, f"rm -rf {house.folder}/build", **{"m.mentions": {"user_ids": [house.bot]}})
            await alice.until(lambda: alice.messages(room) and "👍" in alice.reactions(alice.messages(room)[0]["id"]))
            question = alice.messages(room)[0]
            assert "<pre>" in question["formatted_body"]

            await eve.reacts(room, question["id"], "👍")
            await mallory.reacts(room, question["id"], "👍")
            await alice.until(lambda: any("owner may" in text for text in alice.texts(room)))
            await mallory.answers(room, question["id"], "1")
            await alice.until(lambda: sum("owner may" in text for text in alice.texts(room)) == 2)
            assert not any(eve.name in text for text in alice.texts(room))
            assert (house.folder / "build").is_dir()

            await alice.reacts(room, question["id"], "👍\ufe0f")
            await alice.until(lambda: alice.texts(room)[-1] == "ran it")
            assert not (house.folder / "build").exists()
            settled = alice.messages(room)[0]["body"]
            assert f"approved by {alice.name}" in settled
            assert "rm -rf" in settled
            await alice.until(lambda: not alice.reactions(question["id"]))
            await alice.reacts(room, question["id"], "👎")
            await alice.until(lambda: "already decided" in alice.texts(room)[-1])


async def test_an_approval_is_denied_by_a_reaction_and_answered_by_replies(house: MatrixHouse) -> None:
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot)
            question = await _asked(alice, house, room, "one")
            await alice.reacts(room, question["id"], "👎")
            await alice.until(lambda: alice.texts(room)[-1] == "ran it")  # the model answers any result like this
            assert (house.folder / "one").is_dir()

            question = await _asked(alice, house, room, "two")
            await alice.answers(room, question["id"], f"> <{house.bot}> some question\n\n3")
            await alice.until(lambda: alice.texts(room)[-1] == "ran it")
            assert (house.folder / "two").is_dir()

            question = await _asked(alice, house, room, "three")
            await alice.answers(room, question["id"], "1")
            await alice.until(lambda: alice.texts(room)[-1] == "ran it")
            assert not (house.folder / "three").exists()


async def test_a_gateway_that_is_opened_again_goes_on(house: MatrixHouse) -> None:
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot)
            question = await _asked(alice, house, room, "build")
        await alice.says(room, "said while it was away")
        await alice.reacts(room, question["id"], "👍")
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.until(lambda: "re said while it was away" in alice.texts(room))
            await alice.until(lambda: "ran it" in alice.texts(room))
            assert not (house.folder / "build").exists()
            await alice.until(lambda: not alice.reactions(question["id"]))
            assert house.asked.count("said while it was away") == 1
            notes = [text for text in alice.texts(room) if "waits until the question above is answered" in text]
            assert (len(notes), len(alice.messages(room)) - len(notes)) == (1, 3)  # the message came before the reaction


async def test_an_answer_that_a_restart_broke_off_is_shown_whole_and_once(house: MatrixHouse) -> None:
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot)
            await alice.says(room, "slow one two three four five six")
            await alice.until(lambda: alice.texts(room))
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.until(lambda: alice.texts(room) == ["re slow one two three four five six"])
            await alice.says(room, "and on")
            await alice.until(lambda: alice.texts(room)[1:] == ["re and on"])


async def test_a_server_that_was_killed_is_found_again(house: MatrixHouse) -> None:
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot)
            await alice.says(room, "wait for it")
            await alice.until(lambda: house.asked)
            house.synapse.control("kill")
            house.may.set()  # the answer is ready while the server is down
            await asyncio.sleep(1)
            house.synapse.control("start")
            await alice.until(lambda: alice.texts(room) == ["re wait for it"])
            await alice.says(room, "again")
            await alice.until(lambda: alice.texts(room) == ["re wait for it", "re again"])


async def test_a_group_is_answered_where_it_is_addressed_and_in_its_threads(house: MatrixHouse) -> None:
    async with house.person("alice") as alice, house.person("carl") as carl:
        house.configure(alice.id, carl.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot, carl.id, is_direct=False, name="Kitchen")
            await carl.ask("POST", f"v3/join/{room}", {})
            await carl.says(room, "not for the bot")
            await carl.says(room, f"{house.bot}: old clients write so")
            await alice.until(lambda: alice.texts(room) == [f"re {carl.name}: {house.bot}: old clients write so"])
            answer = alice.messages(room)[-1]
            await alice.answers(room, answer["id"], "that is an answer to it")
            await alice.until(lambda: len(alice.messages(room)) == 2)
            root = await alice.says(room, "a thread begins")
            in_thread = {"rel_type": "m.thread", "event_id": root}
            mentioned = {"m.relates_to": in_thread, "m.mentions": {"user_ids": [house.bot]}}
            await alice.says(room, "within", **mentioned)
            await alice.until(lambda: len(alice.messages(room)) == 3)
            assert alice.messages(room)[-1]["m.relates_to"]["event_id"] == root
            assert house.asked == [
                f"{carl.name}: {house.bot}: old clients write so",
                f"{alice.name}: that is an answer to it",
                f"{alice.name}: within",
            ]


async def test_a_direct_chat_is_closed_to_others_or_a_group(house: MatrixHouse) -> None:
    async with house.person("alice") as alice, house.person("eve") as eve:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot)
            await alice.says(room, "alone")
            await alice.until(lambda: alice.texts(room) == ["re alone"])
            await alice.ask("POST", f"v3/rooms/{room}/invite", {"user_id": eve.id})
            await alice.says(room, "not to the bot")
            open_to_all = await alice.room(house.bot, preset="public_chat")
            await alice.says(open_to_all, "nor this")
            await alice.says(room, "now", **{"m.mentions": {"user_ids": [house.bot]}})
            await alice.until(lambda: alice.texts(room)[1:])
            assert house.asked == ["alone", f"{alice.name}: now"]
            assert len(house.models) == 2  # one session each


@pytest.mark.parametrize("encryption", ["m.megolm.v1.aes-sha2"])
async def test_without_the_extra_an_encrypted_room_is_told_once_that_it_cannot_be_read(
    house: MatrixHouse, encryption: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vodozemac", None)
    async with house.person("alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            state = [{"type": "m.room.encryption", "state_key": "", "content": {"algorithm": encryption}}]
            room = await alice.room(house.bot, initial_state=state)
            for _ in range(3):
                content = {"algorithm": encryption, "ciphertext": "x", "sender_key": "x", "session_id": "x", "device_id": "x"}
                await alice.send(room, "m.room.encrypted", content)
            await alice.until(lambda: alice.texts(room))
            other = await alice.room(house.bot)
            await alice.says(other, "hello")
            await alice.until(lambda: alice.texts(other) == ["re hello"])
            assert len(alice.texts(room)) == 1
            assert "encrypted" in alice.texts(room)[0]
