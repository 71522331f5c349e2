"""Hosts of package managers, from the user's configuration and the managers, but never from the project."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tools.environments.local.network import NetworkGuard, learned_hosts

PATH = os.defpath


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    (home / ".config" / "pip").mkdir(parents=True)
    (home / ".cargo").mkdir()
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    return project


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_files_and_variables_of_the_person(home: Path, project: Path) -> None:
    (home / ".config/pip/pip.conf").write_text(
        "[global]\n# see https://commented.example/\nindex-url = https://me:secret@pip.example:8443/simple\n"
        "extra-index-url =\n    http://more.example/simple\n    http://localhost:3141/root\n"
    )
    (home / ".npmrc").write_text("@ours:registry=https://npm.example/\n//npm.example/:_authToken=secret\n; https://no.example\n")
    (home / ".cargo/config.toml").write_text('[registries.ours]\nindex = "sparse+https://crates.example/index/"\n')
    (home / ".gitconfig").write_text('[url "ssh://git@git.example:2222/"]\n    insteadOf = ours:\n')
    environment = {
        "UV_INDEX_URL": "https://uv.example/simple",
        "GOPROXY": "https://go.example,direct",
        "HOME_PAGE": "https://x.example",
    }
    found = learned_hosts(environment | {"PATH": ""}, str(home), str(project))
    assert {
        *("pip.example:8443", "more.example", "localhost:3141", "npm.example", "crates.example", "git.example:2222"),
        *("uv.example", "go.example"),
    } <= set(found)
    assert not {"commented.example", "no.example", "x.example"} & set(found)
    assert "secret" not in str(found)


def test_cargo_s_own_cache_names_where_crates_are(home: Path, project: Path) -> None:
    index = home / ".cargo/registry/index/index.example-1234"
    index.mkdir(parents=True)
    (index / "config.json").write_text('{"dl": "https://static.example/crates", "api": "https://api.example"}')
    assert {"static.example", "api.example"} <= set(learned_hosts({"PATH": ""}, str(home), str(project)))


def test_managers_are_asked_outside_the_project(home: Path, project: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    program(
        tools,
        "npm",
        'test "$PWD" = / && test "$*" = "config get registry" && echo https://npm.example/; echo https://err.example >&2',
    )
    program(tools, "go", "printf 'https://goproxy.example,direct\\nsum.example\\n'")
    program(
        tools, "cargo", 'echo "failed to download from \\`https://index.example/config.json, $CARGO_HTTP_PROXY" >&2; exit 101'
    )
    program(tools, "python3", "echo https://simple.example/ https://files.example")
    found = set(learned_hosts({"PATH": str(tools)}, str(home), str(project)))
    assert {"npm.example", "goproxy.example", "sum.example", "index.example", "simple.example", "files.example"} <= found
    assert "err.example" not in found


def test_pip_s_default_index_is_learned_only_if_no_other_is_configured(home: Path, project: Path, tmp_path: Path) -> None:
    program(tmp_path / "tools", "python3", "echo https://simple.example/ https://files.example")
    environment = {"PATH": str(tmp_path / "tools"), "PIP_INDEX_URL": "https://mirror.example/simple"}
    found = set(learned_hosts(environment, str(home), str(project)))
    assert "mirror.example" in found
    assert "simple.example" not in found


def test_a_project_adds_no_host(home: Path, project: Path) -> None:
    program(project / "bin", "npm", "echo https://evil.example/")
    (project / ".npmrc").write_text("registry=https://evil.example/\n")
    (project / "pip.conf").write_text("[global]\nindex-url=https://evil.example/\n")
    (home / ".config/uv").mkdir()
    (home / ".config/uv/uv.toml").symlink_to(project / "pip.conf")
    environment = {"PATH": f"{project}/bin:bin:.", "PIP_CONFIG_FILE": f"{project}/pip.conf"}
    for folders in ([str(project)], ["/nowhere", str(project)]):
        assert "evil.example" not in learned_hosts(environment, str(home), *folders)


def test_pip_is_asked_by_its_own_interpreter(home: Path, project: Path, tmp_path: Path) -> None:
    """The real pip reports its index and the host of its files; this test contains no host name."""
    pytest.importorskip("pip")
    program(tmp_path / "tools", "python3", f'exec {sys.executable} "$@"')
    without = set(learned_hosts({"PATH": ""}, str(home), str(project)))
    assert len(set(learned_hosts({"PATH": str(tmp_path / "tools")}, str(home), str(project))) - without) == 2


def test_a_manager_that_hangs_is_ended(home: Path, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.environments.local.network.learned._LIMIT", "0.2")
    program(tmp_path / "tools", "npm", "sleep 600 & sleep 600")
    assert isinstance(learned_hosts({"PATH": f"{tmp_path}/tools:{PATH}", "A": "hangs"}, str(home), str(project)), list)


@pytest.mark.full
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_connections_wait_for_what_is_being_learned(sandbox: Any, website: Any) -> None:
    learned = threading.Event()

    def slowly() -> list[str]:
        assert learned.wait(60)
        return [f"localhost:{website.server_port}"]

    box = sandbox(find=slowly)
    process = box.start(f"echo begun; curl -sS http://localhost:{website.server_port}/hello")
    assert process.stdout.readline() == "begun\n"
    time.sleep(0.1)  # usually the request waits by then
    learned.set()
    assert process.communicate(timeout=120)[0] == "hello from outside\n"


async def test_nothing_is_learned_before_an_unknown_host_is_needed() -> None:
    learned: list[str] = []

    def find() -> list[str]:
        learned.append("asked")
        return ["packages.test"]

    guard = NetworkGuard(["known.test"], find)
    try:
        assert await guard.unknown(["known.test"]) == []
        assert learned == []
        assert await guard.unknown(["known.test", "packages.test", "other.test"]) == ["other.test"]
        assert await guard.unknown(["another.test"]) == ["another.test"]
        assert learned == ["asked"]
    finally:
        guard.close()
