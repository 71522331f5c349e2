"""The container file of a gateway: an engine builds it, and the commands that it starts are run here."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e
COMMAND = Path(sys.executable).with_name("toolcrib")


@pytest.fixture(scope="module")
def lines(root: Path) -> list[str]:
    text = (root / "examples" / "gateway-container" / "Containerfile").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _value(lines: list[str], instruction: str) -> str:
    (found,) = (line.partition(" ")[2] for line in lines if line.startswith(f"{instruction} "))
    return found


def test_what_it_installs_is_there(lines: list[str], root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = (line.partition("EXTRAS=")[2].split(",") for line in lines if line.startswith("ARG EXTRAS="))
    assert set(extras) <= set(project["optional-dependencies"])
    words = shlex.split(_value(lines, "RUN"))
    assert words[:4] == ["pip", "install", "--no-cache-dir", "toolcrib[${EXTRAS}]"]
    assert subprocess.run(["sh", "-n", "-c", _value(lines, "RUN")], check=False, timeout=30).returncode == 0
    version = re.search(r"python:(\d+\.\d+)-slim", lines[0])
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]


def test_what_it_starts_runs_and_is_healthy(lines: list[str], config: Any, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = dict(pair.split("=", 1) for pair in shlex.split(_value(lines, "ENV")))
    assert set(told) == {"TOOLCRIB_CONFIG", "TOOLCRIB_STATE"}
    platforms = f"platforms: {{console: {{settings: {{socket: {tmp_path}/s}}}}}}"
    file = config(f"gateway: {{port: {port}}}\nplugins: {{enabled: [console]}}\n{platforms}\n")
    env = {**os.environ, "TOOLCRIB_CONFIG": str(file), "TOOLCRIB_STATE": str(tmp_path / "state")}
    program, *words = json.loads(_value(lines, "ENTRYPOINT")) + json.loads(_value(lines, "CMD"))
    assert program == "toolcrib"
    model = ["--base-url", "http://127.0.0.1:1", "--model", "m"]
    gateway = subprocess.Popen([COMMAND, *words, *model], env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        python, option, code = json.loads(_value(lines, "HEALTHCHECK").removeprefix("CMD "))
        assert (python, option) == ("python", "-c")
        ast.parse(code)
        assert ":9464/" in code
        end = time.monotonic() + 60
        while (asked := _asked(code.replace(":9464/", f":{port}/"))) != 0 and time.monotonic() < end and gateway.poll() is None:
            time.sleep(0.2)
        assert asked == 0, gateway.poll()
        gateway.send_signal(getattr(signal, _value(lines, "STOPSIGNAL")))
        _, log = gateway.communicate(timeout=60)
    finally:
        gateway.kill()
        gateway.wait()
    assert gateway.returncode == 0, log
    assert all(isinstance(json.loads(line), dict) for line in log.splitlines())


def _asked(code: str) -> int:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=30).returncode


@pytest.mark.xdist_group("docker")
def test_an_engine_reads_it(lines: list[str], engine: Any, tmp_path: Path) -> None:
    """The lines that install packages are left out, because they need a network."""
    text = "\n".join(line for line in lines if not line.startswith("RUN "))
    docker = ["docker", "--host", engine.host]
    env = {**os.environ, "DOCKER_BUILDKIT": "0"}
    build = [*docker, "build", "--quiet", "--build-arg", "BASE=scratch", "-"]
    made = subprocess.run(build, input=text, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    name = made.stdout.strip()
    try:
        shown = subprocess.run([*docker, "inspect", name], capture_output=True, text=True, timeout=60, check=True).stdout
    finally:
        subprocess.run([*docker, "rmi", "-f", name], capture_output=True, timeout=60, check=True)
    told = json.loads(shown)[0]["Config"]
    assert (told["User"], told["WorkingDir"], told["StopSignal"]) == ("toolcrib", "/home/toolcrib", "SIGTERM")
    assert [*told["Entrypoint"], *told["Cmd"]] == ["toolcrib", "gateway", "run", "--logs", "json"]
    assert "TOOLCRIB_CONFIG=/etc/toolcrib/config.yaml" in told["Env"]
    assert told["Healthcheck"]["Test"][0] == "CMD"
    assert list(told["Volumes"]) == ["/home/toolcrib"]
