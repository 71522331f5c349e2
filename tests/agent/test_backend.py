"""Where a session's commands run, by configuration (003-29)."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import load_config
from agent.run import assemble
from toolcrib import ConfigError, ToolCallStatus
from tools.dispatch.faces import as_json


def crib_of(folder: Path, text: str):
    file = folder / "config.yaml"
    file.write_text(text)
    (folder / "project").mkdir()
    return assemble(config_file=file, project_dir=folder / "project")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("terminal: {backend: docker}", "needs an image"),
        ("terminal: {backend: ssh}", "set environments.ssh.host"),
        ("terminal: {backend: ssh}\nenvironments: {ssh: {host: 127.0.0.1, port: 1}}", "refuses connections"),
        ("terminal: {backend: docker}\nenvironments: {docker: {image: x, mounts: [/etc]}}", "belongs to the system"),
        ("terminal: {backend: docker}\nenvironments: {docker: {image: x, host: 'unix:///nowhere'}}", "does not answer"),
    ],
)
def test_a_place_that_cannot_be_had_is_an_error_and_nothing_runs_elsewhere(tmp_path: Path, text: str, said: str) -> None:
    """003-29"""
    with crib_of(tmp_path, text) as crib:
        session = crib.open_session(cwd=str(tmp_path / "project"))
        executed = session.call("terminal", {"command": "touch here"})
        assert executed.status is not ToolCallStatus.SUCCEEDED
        assert said in as_json(executed)
    assert not (tmp_path / "project" / "here").exists()


def test_what_is_wrong_in_the_configuration_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("environments: {docker: {memory: much, keep: maybe, pids: 0}}")
    with pytest.raises(ConfigError) as error:
        load_config(file)
    for key in ("memory", "keep", "pids"):
        assert f"environments.docker.{key}" in str(error.value)
