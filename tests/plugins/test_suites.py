"""Every bundled platform runs the suite for chat platforms."""

from __future__ import annotations

from pathlib import Path

import pytest

NAMES = sorted(path.parent.name for path in Path(__file__).parents[2].glob("plugins/*/platform.py"))


def test_there_are_platforms() -> None:
    assert {"console", "discord", "email", "irc", "matrix", "slack", "telegram", "webhook", "xmpp"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_platform_runs_the_suite(name: str) -> None:
    files = Path(__file__).parent.glob(f"{name}/test_*.py")
    assert [one.name for one in files if "(PlatformSuite)" in one.read_text()]
