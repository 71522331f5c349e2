"""A configuration that is reloaded while users chat."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os

import pytest

from agent.api import assemble
from agent.cli.commands import gateway as command
from agent.config import load_config
from agent.gateway import gateway as module
from agent.gateway.logs import gateway_log
from agent.gateway.reloading import RELOADED
from agent.gateway.status import GATEWAY
from agent.policy.confirmation import confirm
from tests.agent.gateway.conftest import OWNED, House, line_of
from toolcrib import ConfigError, ToolcribError
from toolcrib.chat import Chat

GROUP = Chat("room", is_group=True)


def changed(house: House, text: str) -> None:
    """Write the configuration, and confirm it."""
    house.configure(text)
    confirm(load_config(house.config))


async def test_who_may_speak_is_read_again_and_open_chats_go_on(house: House) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("one")
        await house.until(lambda: house.platform.texts() == ["re one"])
        await house.platform.says("nobody", user="dora", chat=Chat("d"))
        changed(house, OWNED.replace("bob, carl", "bob, dora"))
        assert await gateway.reconfigure() == ["the configuration was reloaded"]
        assert gateway.lines == [line]
        await house.platform.says("now", user="dora", chat=Chat("d"))
        await house.platform.says("gone", user="carl", chat=Chat("c"))
        await house.platform.says("two")
        await house.until(lambda: house.platform.texts()[-1:] == ["re two"] and house.platform.texts(Chat("d")))
    assert house.platform.texts(Chat("d")) == ["re now"]
    assert house.platform.texts(Chat("c")) == []
    assert len([info for info in await house.store.sessions.list(10) if info.user == "ann"]) == 1


async def test_a_run_that_is_under_way_ends_by_the_old_and_the_next_message_goes_by_the_new(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        await house.platform.says("behind")
        changed(house, OWNED + "tools: {disabled: [terminal]}\n")
        await gateway.reconfigure()
        house.may.set()
        await house.until(lambda: house.platform.texts() == ["re wait", "re behind"])
        session = await gateway.lines[0].manager.opened((await house.store.sessions.list(1))[0].id)
        assert "terminal" not in session.names


async def test_a_parked_run_of_a_user_who_was_removed_ends_and_its_call_never_runs(house: House) -> None:
    (house.folder / "build").mkdir()
    changed(house, OWNED)
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says(f"rm -rf {house.folder}/build", user="bob", chat=Chat("b"))
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
        question = house.platform.shown[-1]
        (info,) = [info for info in await house.store.sessions.list(10) if info.user == "bob"]
        await house.platform.says("and then this", user="bob", chat=Chat("b"))
        changed(house, OWNED.replace("bob, carl", "carl"))
        await gateway.reconfigure()
        await house.platform.presses(question, "y", user="ann")
        while await house.store.runs.current(info.id) is not None:
            await asyncio.sleep(0.01)
        assert not await house.store.inbox.waiting(info.id)
        assert not await house.store.tickets.pending(info.id)
    assert (house.folder / "build").is_dir()
    assert "ran it" not in house.platform.texts(Chat("b"))


async def test_who_may_agree_is_read_again_for_open_questions_too(house: House) -> None:
    changed(house, OWNED)  # the folder exists before the question, because the grant names it
    (house.folder / "build").mkdir()
    async with house.gateway() as gateway:
        line_of(gateway)
        await house.platform.says(f"rm -rf {house.folder}/build")
        await house.until(lambda: house.platform.shown and house.platform.shown[-1].out.buttons)
        question = house.platform.shown[-1]
        assert "owner" in await house.platform.presses(question, "y", user="bob")
        changed(house, OWNED.replace("owner: [ann]", "owner: [ann], chiefs: [bob]") + "gateway: {approvers: {fs: [chiefs]}}\n")
        await gateway.reconfigure()
        assert await house.platform.presses(question, "y", user="bob") == ""
        await house.until(lambda: house.platform.texts()[-1] == "ran it")


async def test_quotas_and_modes_are_read_again(house: House) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        changed(house, OWNED + "    messages_per_hour: 1\n    busy: interrupt\n")
        await gateway.reconfigure()
        await house.platform.says("one", user="bob")
        await house.platform.says("two", user="bob")
        await house.until(lambda: any("limit" in text for text in house.platform.texts()))
        await house.platform.says("wait")
        await house.until(lambda: "wait" in house.asked)
        await house.platform.says("instead")
        await house.until(lambda: house.platform.texts()[-1] == "re instead")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("platforms: {fake: {busy: never}}\n", "config.yaml:1: platforms.fake.busy: "),
        ("platforms:\n  fake:\n    backend: moon\n", "config.yaml:3: platforms.fake.backend: "),
        ("platforms: [\n", "invalid YAML"),
    ],
)
async def test_a_broken_file_is_refused_and_the_running_configuration_stays(house: House, text: str, told: str) -> None:
    async with house.gateway() as gateway:
        line_of(gateway)
        house.configure(text)
        with pytest.raises(ConfigError) as caught:
            await gateway.reconfigure()
        assert told in str(caught.value)
        await house.platform.says("hello")
        await house.until(lambda: house.platform.texts() == ["re hello"])


async def test_what_nobody_agreed_to_is_refused(house: House) -> None:
    changed(house, OWNED)
    async with house.gateway() as gateway:
        line_of(gateway)
        house.configure(OWNED.replace("owner: [ann]", "owner: [ann, eve]"))
        with pytest.raises(ConfigError, match="has unconfirmed changes"):
            await gateway.reconfigure()
        await house.platform.says("hello", user="eve")
        await asyncio.sleep(0.1)
    assert house.asked == []


async def test_other_settings_make_a_platform_begin_anew_once_its_runs_have_ended(house: House) -> None:
    async with house.gateway() as gateway:
        line = line_of(gateway)
        await house.platform.says("wait")
        await house.until(lambda: house.asked)
        changed(house, OWNED + "    settings: {server: other}\n")
        assert "fake restarts when its runs have ended" in await gateway.reconfigure()
        await house.until(lambda: line.state == "draining")
        await house.platform.says("meanwhile", chat=Chat("other"))
        house.may.set()
        await house.until(lambda: gateway.lines[0] is not line and gateway.running)
        assert gateway.lines[0].door.settings == {"server": "other"}
        await house.until(lambda: house.platform.texts(Chat("other")) == ["re meanwhile"])
    assert house.platform.texts() == ["re wait"]


@pytest.mark.parametrize("refused", ["owner: [eve]", "owner: {eve: 1}"])
async def test_the_log_names_nobody_where_a_configuration_is_refused(
    house: House, refused: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The caller of the reload learns the error; the log only names the file."""
    changed(house, OWNED)
    with gateway_log("text", str):
        async with house.gateway() as gateway:
            house.configure(OWNED.replace("owner: [ann]", refused))
            gateway.reload()
            async with asyncio.timeout(60):
                while (found := (await house.store.state.of("profile", GATEWAY)).get(RELOADED)) is None:
                    await asyncio.sleep(0.01)
            kept = found.value
    log = capsys.readouterr().err
    assert "roles" in kept["problem"]
    assert "the configuration was not reloaded: " in log
    assert str(house.config) in log
    assert "eve" not in log


def told_by(house: House, *words: str) -> tuple[int, str]:
    """Run ``toolcrib gateway`` beside the gateway, over its store; return its exit code and output."""
    crib = assemble(config=load_config(house.config), project_dir=house.folder, store=house.store)
    house.cribs.append(crib)
    args = argparse.Namespace(action=words[0], names=[], json="--json" in words, now=False)
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as out:
        patch.setattr(command, "open_crib", lambda *_, **__: contextlib.nullcontext(crib))
        with contextlib.redirect_stderr(out):
            try:
                code = command.run(args)
            except ToolcribError as error:
                code = 2
                print(error)
    return code, out.getvalue()


async def test_a_gateway_whose_last_platform_is_switched_off_is_still_seen_and_heard(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    on = [True]
    monkeypatch.setattr(module, "wanted", lambda crib, named: list(crib.platforms) if on[0] else [])
    async with house.gateway() as gateway:
        serving = asyncio.create_task(gateway.serve())
        await asyncio.to_thread(told_by, house, "status")
        on[0] = False
        code, said = await asyncio.to_thread(told_by, house, "reload")
        assert (code, "fake was disabled" in said) == (0, True)
        await house.until(lambda: not gateway._all)
        await house.until(lambda: gateway._is_idle)
        code, said = await asyncio.to_thread(told_by, house, "status")
        assert f"a gateway is running without a platform (process {os.getpid()})" in said
        assert json.loads((await asyncio.to_thread(told_by, house, "status", "--json"))[1])["without_platforms"] == os.getpid()
        on[0] = True
        code, said = await asyncio.to_thread(told_by, house, "reload")
        assert (code, "fake was enabled; it starts now" in said) == (0, True)
        await house.platform.says("hello")
        await house.until(lambda: house.platform.texts() == ["re hello"])
        assert "without any platform" not in (await asyncio.to_thread(told_by, house, "status"))[1]
        on[0] = False
        await gateway.reconfigure()
        await house.until(lambda: gateway._is_idle)
        assert (await asyncio.to_thread(told_by, house, "stop"))[0] == 0
        await serving
    assert (await asyncio.to_thread(told_by, house, "stop"))[0] == 1


async def test_a_platform_that_is_switched_off_and_on_starts_once_its_runs_have_ended(
    house: House, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gateway does not mistake itself for another process that holds the account, however often it switches."""
    on = [True]
    monkeypatch.setattr(module, "wanted", lambda crib, named: list(crib.platforms) if on[0] else [])
    house.more = {"retry_seconds": 60.0}
    with gateway_log("text", str):
        async with house.gateway() as gateway:
            line = line_of(gateway)
            await house.platform.says("wait")
            await house.until(lambda: house.asked)
            for on[0] in (False, True, True, False, True):
                await gateway.reconfigure()
            await house.until(lambda: line.state == "draining")
            assert [one.state for one in gateway.lines] == ["starting"]
            house.may.set()
            await house.until(lambda: house.platform.texts() == ["re wait"] and gateway.lines[0].state == "running")
            await house.platform.says("hello")
            await house.until(lambda: house.platform.texts()[-1] == "re hello")
            assert not gateway._leaving
    assert "another gateway" not in capsys.readouterr().err
