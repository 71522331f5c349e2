"""What a platform is given: its secrets, from the file beside the configuration that is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.gateway.conftest import House, line_of
from toolcrib import ConfigError


async def test_a_secret_is_read_beside_the_configuration_that_is_used(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAKE_TOKEN", raising=False)
    secrets = house.folder / "secrets.env"
    secrets.write_text("FAKE_TOKEN=beside\n")
    secrets.chmod(0o600)
    async with house.gateway() as gateway:
        door = line_of(gateway).door
        assert door.secret("FAKE_TOKEN") == "beside"
        with pytest.raises(ConfigError, match=str(Path(secrets))):
            door.secret("OTHER_TOKEN")
        monkeypatch.setenv("FAKE_TOKEN", "of the environment")
        assert door.secret("FAKE_TOKEN") == "of the environment"
