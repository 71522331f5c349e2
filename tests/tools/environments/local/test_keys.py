"""Keys outside of folders of keys, read in a real sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from toolcrib import ExecRequest
from tools.environments import open_environment
from tools.environments.local.holding import sandbox_here
from tools.environments.local.keys import keys_elsewhere

NPMRC = "registry=https://npm.corp.test/\n//npm.corp.test/:_authToken=npm_secret\nfund=false\n"
PIP = "[global]\nindex-url = https://me:pip_secret@pip.corp.test/simple\n"
MAVEN = "<settings><mirror>https://m2.corp.test</mirror><password>m2_secret</password></settings>\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path.resolve() / "home"
    for folder in (".ssh", "keys", ".config/pip", ".m2", "project"):
        (home / folder).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return home


def test_keys_behind_links_and_in_settings_are_found(home: Path) -> None:
    for name in ("work", "deploy", "creds"):
        (home / "keys" / name).write_text("secret")
    (home / ".ssh" / "id").symlink_to("../keys/work")
    (home / ".ssh" / "known_hosts").symlink_to("/etc/passwd")
    (home / ".ssh" / "config").write_text('Host a\n  IdentityFile "%d/keys/deploy"\n  IdentityFile ~/.ssh/none\n')
    (home / ".gitconfig").write_text("[credential]\n\thelper = store --file ~/keys/creds\n")
    assert keys_elsewhere(["~/.ssh", "~/.aws"]) == [str(home / "keys" / name) for name in ("creds", "deploy", "work")]


def test_settings_with_passwords_are_read_without_them(home: Path) -> None:
    """The index stays: with another one, a package manager would take a stranger's package of the same name."""
    if sandbox_here("workspace").by != "namespaces":
        pytest.skip("this machine can make no namespaces")
    for name, text in ((".npmrc", NPMRC), (".config/pip/pip.conf", PIP), (".m2/settings.xml", MAVEN)):
        (home / name).write_text(text)

    async def shown() -> str:
        environment = open_environment("local", cwd=str(home / "project"), sandbox="workspace")
        try:
            line = f"cd {home} && cat .npmrc .config/pip/pip.conf .m2/settings.xml; echo x >> .npmrc"
            return (await environment.execute(ExecRequest(line, timeout=60))).stdout.head.decode()
        finally:
            await environment.close()

    text = asyncio.run(shown())
    assert text == (NPMRC + PIP + MAVEN).replace("npm_secret", "").replace("me:pip_secret@", "").replace("m2_secret", "")
    assert (home / ".npmrc").read_text() == NPMRC
