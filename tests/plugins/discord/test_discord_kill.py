"""The real program with Discord's real library and a fake of Discord, killed while users write."""

from __future__ import annotations

from tests.plugins.discord.test_discord_gateway import house as house
from tests.plugins.killing import Kills
from tests.plugins.killing import program as program


class TestDiscordKills(Kills):
    """Runs all kills of the base class."""
