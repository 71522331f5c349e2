"""The tools that a session really gets: what the commands show is what the gateway gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.gateway.gateway import Gateway
from agent.gateway.pairing import Pairings
from agent.store.memory import MemoryStore
from tests.agent.cli.conftest import run as run
from tests.agent.gateway.conftest import OWNED, House, line_of
from tests.agent.gateway.conftest import house as house
from toolcrib.chat import Chat
from tools.dispatch.bridge import run_async

USING = ["terminal", "process", "read_file", "write_file", "patch", "search_files"]
SETTINGS = {
    "by default": "",
    "on this machine": "    allow_local: true\n",
    "in a sandbox": "    backend: bubblewrap\n",
    "in the local backend": "    backend: local\n",
    "few": "    enabled_toolsets: [safe]\n",
    "without one": "    disabled_tools: [todo]\n    disabled_toolsets: [file]\n    allow_local: true\n",
    "owned by any user": "    roles: {owner: ['*']}\n",
    "narrowed for a user": "users: {'fake:bob': {disabled_tools: [clarify]}}\n",
    "without delegates": "delegates: {max_depth: 0}\n",
    "without memory": "memory: {enabled: false}\n",
}
CHATS = {"ann": Chat("anns"), "bob": Chat("bobs"), "carl": Chat("carls"), "room:r": Chat("r", is_group=True)}


async def given(gateway: Gateway, house: House, user: str) -> list[str]:
    """Return the tools of the session that the gateway opens for a user's message, or for a group."""
    chat, speaker = CHATS[user], "ann" if chat_is_group(user) else user
    await house.platform.says("hello", user=speaker, chat=chat, is_addressed=True)
    await house.until(lambda: house.platform.texts(chat))
    record = await house.store.mail.chat("fake", chat.key)
    assert record is not None
    session = await line_of(gateway).manager.opened(record.session_id)
    return [name for name in session.names if name != "send_file"]


def chat_is_group(user: str) -> bool:
    return user.startswith("room:")


@pytest.mark.parametrize("more", SETTINGS.values(), ids=list(SETTINGS))
async def test_commands_show_what_the_gateway_gives(house: House, more: str) -> None:
    """003-10: a user without rights on this machine is not shown tools that use it."""
    base = OWNED.replace("    allow_local: true\n", "")
    house.configure(base.replace("    roles: {owner: [ann]}\n", "") + more if "roles:" in more else base + more)
    async with house.gateway() as gateway:
        for user in CHATS:
            shown = [line.name for line in house.cribs[-1].explain("fake", user) if line.granted and line.name != "send_file"]
            assert sorted(await given(gateway, house, user)) == sorted(shown), user


def test_a_paired_owner_gets_the_tools_of_an_owner(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path, store=MemoryStore()) as crib:

        def shown(user: str) -> set[str]:
            return {line.name for line in crib.explain("telegram", user) if line.granted}

        assert shown("7").isdisjoint(USING)
        pairings = Pairings(crib.store, "telegram")
        run_async(pairings.take(run_async(pairings.offer("owner")), "7"))
        assert set(USING) <= shown("7")
        assert shown("8") == shown("") == shown("7") - set(USING)


@pytest.fixture
def lines(run: Any, config: Any) -> Any:
    config("platforms: {telegram: {roles: {owner: ['7']}}}\n")

    def lines(*words: str) -> dict[str, Any]:
        done = run(*words, "--json")
        listed = json.loads(done.out)
        return {line["name"]: line for line in (listed["tools"] if isinstance(listed, dict) else listed)}

    return lines


@pytest.mark.parametrize("words", [("toolsets", "resolve"), ("tools", "list")])
def test_each_command_shows_it(lines: Any, words: tuple[str, ...]) -> None:
    """003-12"""
    for more in ((), ("--user", "8"), ("--user", "room:7")):
        found = lines(*words, "--platform", "telegram", *more)
        assert {name for name, line in found.items() if not line["granted"]} == set(USING)
        assert found["terminal"]["reason"].startswith("not given to ")
    assert all(line["granted"] for line in lines(*words, "--platform", "telegram", "--user", "7").values())
    assert not lines(*words, "--platform", "cron")["cronjob"]["granted"]


def test_words_about_a_chat_and_a_job(run: Any, config: Any) -> None:
    config("platforms: {telegram: {roles: {owner: ['7']}}, cron: {enabled_toolsets: [all]}}\n")
    told = run("toolsets", "--platform", "telegram").out
    assert "platforms.telegram.allow_local: true" in told.partition("and does not get:\n")[2]
    assert "terminal" in run("toolsets", "diff", "cli", "telegram", "--platforms").out
    assert "+ terminal, read_file" in run("toolsets", "resolve", "--with", "platforms.telegram.allow_local=true").out
    assert "clarify  no job has it" in " ".join(run("toolsets", "--platform", "cron").out.split(" ")).replace("   ", "  ")


@pytest.mark.parametrize("words", [("toolcrib-telegram",), ("hermes-telegram",), ("coding", "--platform", "telegram")])
def test_the_toolset_of_a_chat_shows_tools_that_its_users_do_not_get(run: Any, words: tuple[str, ...]) -> None:
    """003-12"""
    rows = run("toolsets", "show", *words).out.splitlines()
    assert {row.split()[1] for row in rows if row.startswith("✗")} - {"send_message"} == set(USING)
    assert "platforms.telegram.allow_local: true" in " ".join(rows)


def test_a_toolset_shows_a_tool_that_no_session_gets_as_missing(run: Any, config: Any) -> None:
    """003-10"""
    assert "no chat platform is configured" in run("toolsets", "show", "messaging").out
    rows = {line.split()[0]: line for line in run("toolsets").out.splitlines()}
    assert "1 tool (unavailable)" in rows["messaging"]
    assert "13 tools (1 missing)" in rows["toolcrib-cli"]
    config("platforms: {telegram: {}}\ntools: {disabled: [todo]}\n")
    assert "✗" not in run("toolsets", "show", "messaging").out
    assert "to enable it: toolcrib tools enable todo" in run("toolsets", "show", "todo").out
