"""Direct access to the engine, without an environment."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from toolcrib import Environment
from tools.environments import open_environment


@pytest.fixture
def client(engine: Any) -> Iterator[docker.DockerClient]:
    with contextlib.closing(docker.DockerClient(engine.host)) as client:
        yield client


@pytest.fixture
def env(engine: Any, folder: Path) -> Iterator[Environment]:
    environment = open_environment("docker", cwd=str(folder), **engine.options)
    yield environment
    asyncio.run(environment.close())
