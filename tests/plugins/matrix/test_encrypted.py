"""Encrypted rooms on a real Synapse, through the whole gateway, with a user whose client encrypts."""

from __future__ import annotations

from typing import Any

from agent.gateway.forms import body_of
from tests.plugins.matrix.conftest import MatrixHouse, line_of
from tests.plugins.matrix.secrecy import SecretPerson
from toolcrib.chat import Chat, OutFile


async def test_a_message_is_answered_by_edits_and_the_server_reads_nothing(house: MatrixHouse) -> None:
    async with SecretPerson(house.synapse, "alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot)
            await alice.says(room, "slow one two three four five six")
            await alice.until(lambda: alice.texts(room) == ["re slow one two three four five six"])
            [shown] = alice.messages(room)
            assert len(shown["forms"]) > 2
            assert house.asked == ["slow one two three four five six"]
            stored = [event for event in await alice.as_stored(room) if event["sender"] == house.bot]
            assert {event["type"] for event in stored} == {"m.room.member", "m.room.encrypted"}
            assert "three" not in str(stored)


async def test_files_come_and_go_encrypted(house: MatrixHouse) -> None:
    from nio.crypto import decrypt_attachment, encrypt_attachment

    async with SecretPerson(house.synapse, "alice") as alice:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line = line_of(gateway)
            room = await alice.room(house.bot)
            noise, lock = encrypt_attachment(b"buy milk")
            url = await alice.uploads("x", noise, "application/octet-stream")
            file = {"file": {"url": url, **lock}, "info": {"mimetype": "text/plain", "size": 8}}
            await alice.says(room, "notes.txt", msgtype="m.file", filename="notes.txt", **file)
            await alice.until(lambda: alice.texts(room))
            [kept] = house.folder.parent.rglob("*notes.txt")
            assert kept.read_bytes() == b"buy milk"

            changed = {**file["file"], "hashes": {"sha256": "AAAA"}}
            await alice.says(room, "other.txt", msgtype="m.file", filename="other.txt", file=changed, info=file["info"])
            await alice.until(lambda: any("changed in transit" in text for text in alice.texts(room)))
            assert not list(house.folder.parent.rglob("*other.txt"))

            report = house.folder / "report.csv"
            report.write_bytes(b"a,b\n" * 1000)
            await line.outbox.put(room, "report", body_of(Chat(room), "", files=[OutFile(report, "report.csv", "text/csv")]))
            shown = await alice.until(lambda: [one for one in alice.messages(room) if "file" in one])
            assert "url" not in shown[0]
            lock = shown[0]["file"]
            stored = await alice.downloads(lock["url"])
            assert stored != report.read_bytes()
            assert decrypt_attachment(stored, lock["key"]["k"], lock["hashes"]["sha256"], lock["iv"]) == report.read_bytes()


async def _asked(person: SecretPerson, house: MatrixHouse, room: str, name: str, **content: Any) -> dict[str, Any]:
    (house.folder / name).mkdir()
    await person.says(room, f"rm -rf {house.folder}/{name}", **content)
    found: list[dict[str, Any]] = await person.until(lambda: [one for one in person.messages(room) if f"/{name}" in one["body"]])
    await person.until(lambda: {"👍", "👎"} <= set(person.reactions(found[-1]["id"])))
    return found[-1]


async def test_approvals_are_given_by_reactions_and_replies_of_who_may_also_after_a_restart(house: MatrixHouse) -> None:
    """003-25"""
    async with SecretPerson(house.synapse, "alice") as alice, SecretPerson(house.synapse, "eve") as eve:
        house.configure(alice.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot)
            question = await _asked(alice, house, room, "one")
            await alice.answers(room, question["id"], "1")
            await alice.until(lambda: alice.texts(room)[-1] == "ran it")
            assert not (house.folder / "one").exists()
            await alice.ask("POST", f"v3/rooms/{room}/invite", {"user_id": eve.id})
            await eve.ask("POST", f"v3/join/{room}", {})
            await eve.knows(room)
            question = await _asked(alice, house, room, "two", **{"m.mentions": {"user_ids": [house.bot]}})
        await eve.reacts(room, question["id"], "👍")
        await eve.answers(room, question["id"], "1")
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.says(room, "are you there?", **{"m.mentions": {"user_ids": [house.bot]}})
            await alice.until(lambda: any("waits until" in text or "are you there" in text for text in alice.texts(room)))
            assert (house.folder / "two").exists()
            await alice.reacts(room, question["id"], "👍")
            await alice.until(lambda: "ran it" in alice.texts(room)[-1] or not (house.folder / "two").exists())
            await alice.until(lambda: not alice.reactions(question["id"]))
            assert not (house.folder / "two").exists()


async def test_what_was_said_while_it_was_away_is_answered_and_who_comes_later_reads_on(house: MatrixHouse) -> None:
    async with SecretPerson(house.synapse, "alice") as alice, SecretPerson(house.synapse, "carl") as carl:
        house.configure(alice.id, carl.id)
        async with house.gateway() as gateway:
            line_of(gateway)
            room = await alice.room(house.bot, is_direct=False)
            await alice.says(room, f"{house.bot} first")
            await alice.until(lambda: alice.texts(room))
        await alice.says(room, f"{house.bot} while it was away")
        await alice.ask("POST", f"v3/rooms/{room}/invite", {"user_id": carl.id})
        await carl.ask("POST", f"v3/join/{room}", {})
        await carl.knows(room)
        async with house.gateway() as gateway:
            line_of(gateway)
            await alice.until(lambda: len(alice.texts(room)) == 2)
            await carl.until(lambda: any("while it was away" in text for text in carl.texts(room)))
            await carl.says(room, f"{house.bot} and I?")
            await alice.until(lambda: len(alice.texts(room)) == 3)
            assert house.asked[2] == f"{carl.name}: {house.bot} and I?"
            assert not any("first" in text for text in carl.texts(room))
