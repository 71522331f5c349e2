"""The example platform: it passes the suite as its author runs it, and users chat through it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.api import assemble
from agent.config import config_path, load_config
from agent.gateway.gateway import Gateway
from agent.store.memory import MemoryStore
from toolcrib.testing import ScriptedSession


def test_it_passes_the_suite_as_anybody_runs_it(root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "examples" / "hello-platform", tmp_path / "own", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "-rs", "--basetemp", tmp_path / "base"],
        cwd=tmp_path / "own", env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{tmp_path / 'own'}", "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "13 passed, 7 skipped" in done.stdout, done.stdout


async def test_people_chat_by_it(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = config_path().parent / "plugins"
    plugins.mkdir(parents=True)
    shutil.copytree(root / "examples" / "hello-platform" / "hello_platform", plugins / "hello_platform")
    monkeypatch.syspath_prepend(str(plugins))
    chats = tmp_path / "chats"
    chats.mkdir()
    (chats / "ann.jsonl").touch()
    platforms = {"folder": {"settings": {"folder": str(chats)}, "roles": {"owner": ["ann"]}}}
    config_path().write_text(json.dumps({"plugins": {"enabled": ["hello_platform"]}, "platforms": platforms}))
    crib = assemble(config=load_config(), project_dir=tmp_path, store=MemoryStore())
    try:
        async with Gateway(crib, prepare=lambda session: session.link.use(ScriptedSession("Hello, Ann."))):
            (chats / "in.jsonl").write_text('no JSON\n{"chat": "ann", "user": "ann", "id": "1", "text": "hi"}\n')
            async with asyncio.timeout(60):
                while "Hello, Ann." not in (chats / "ann.jsonl").read_text():
                    await asyncio.sleep(0.05)
    finally:
        crib.close()
        for name in [name for name in sys.modules if name.startswith("hello_platform")]:
            del sys.modules[name]
