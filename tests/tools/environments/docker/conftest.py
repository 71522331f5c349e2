"""Direct access to the engine, without an environment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import docker
import pytest


@pytest.fixture
def client(engine: Any) -> Iterator[docker.DockerClient]:
    with contextlib.closing(docker.DockerClient(engine.host)) as client:
        yield client
