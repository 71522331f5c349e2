"""The real program on Discord's real library, before a fake of Discord, killed while people write."""

from __future__ import annotations

from tests.plugins.discord.test_discord_gateway import house as house
from tests.plugins.killing import Kills
from tests.plugins.killing import program as program


class TestDiscordKills(Kills):
    """All of them."""
