"""The real program on Slack's real library, before a fake of Slack, killed while people write."""

from __future__ import annotations

from tests.plugins.killing import Kills
from tests.plugins.killing import program as program
from tests.plugins.slack.test_slack_gateway import house as house


class TestSlackKills(Kills):
    """All of them."""
