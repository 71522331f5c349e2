"""The real program with Slack's real library and a fake of Slack, killed while users write."""

from __future__ import annotations

from tests.plugins.killing import Kills
from tests.plugins.killing import program as program
from tests.plugins.slack.test_slack_gateway import house as house


class TestSlackKills(Kills):
    """Runs all kills of the base class."""
