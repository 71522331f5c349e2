"""Checks before a platform starts."""

from __future__ import annotations

import logging

import pytest

from agent.gateway.gateway import Gateway
from agent.gateway.pairing import Pairings
from tests.agent.gateway.conftest import OWNED, House, line_of


async def test_an_unknown_backend_keeps_that_platform_from_starting(house: House) -> None:
    house.configure(f"{OWNED}    backend: dockr\n")
    async with house.gateway() as gateway:
        [line] = gateway.lines
        assert f"{house.config}:8: platforms.fake.backend: there is no backend 'dockr'; did you mean 'docker'?" in line.problem
        assert "known: local, bubblewrap, docker, ssh" in line.problem
        assert not gateway.can_run


NO_USERS = "roles: {owner: [], admins: ['']}"


@pytest.mark.parametrize(
    ("config", "is_told"), [(NO_USERS, True), ("allowed_users: [bob]", False), ("roles: {staff: [ann]}", False)]
)
async def test_a_platform_on_which_nobody_may_speak_says_so_once(
    house: House, caplog: pytest.LogCaptureFixture, config: str, is_told: bool
) -> None:
    house.configure(f"platforms: {{fake: {{{config}}}}}\n")
    with caplog.at_level(logging.WARNING, "agent.gateway"):
        async with house.gateway() as gateway:
            line_of(gateway)
    told = [one for one in caplog.messages if "no user may write" in one]
    assert len(told) == is_told
    for way in ("toolcrib gateway pair fake --role owner", "platforms.fake.allowed_users"):
        assert all(way in one for one in told)


async def test_nobody_is_warned_of_while_a_code_waits_or_once_somebody_paired(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    house.configure("platforms: {fake: {roles: {owner: []}}}\n")
    pairings = Pairings(house.store, "fake")
    code = await pairings.offer("owner")
    await _started(house.gateway())
    assert await pairings.take(code, "ann")
    await _started(house.gateway())
    assert "no user may write" not in caplog.text


async def _started(gateway: Gateway) -> None:
    async with gateway:
        line_of(gateway)
