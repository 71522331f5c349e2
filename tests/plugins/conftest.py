"""What tests of all platforms share."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

_END = "-----END CERTIFICATE-----\n"


@pytest.fixture(scope="session")
def an_authority(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """A file with one of the authorities that this system trusts."""
    file = ssl.get_default_verify_paths().cafile
    if file is None:
        return None
    first, end, _ = Path(file).read_text("utf-8").partition(_END)
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    path.write_text(first + end, "utf-8")
    return path


@pytest.fixture(autouse=True)
def _trusts_one_authority(an_authority: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trust one authority instead of all the system's: libraries read 140 certificates for each connection, in 25 ms."""
    if an_authority is not None:
        monkeypatch.setenv("SSL_CERT_FILE", str(an_authority))
