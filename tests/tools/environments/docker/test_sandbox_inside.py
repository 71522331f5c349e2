"""The sandbox of this machine inside a real container: the mode that is reported, and proof that it holds."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import docker
import pytest

pytestmark = pytest.mark.xdist_group("docker")

_FOLDERS = """
mkdir -p home/.ssh home/.config/toolcrib project && echo secret >home/.ssh/id && cd project &&
echo "sandbox: {mode: workspace, network: none}" >../home/.config/toolcrib/config.yaml &&
python3 -c "import sys; from agent.cli import main; sys.exit(main())" sandbox --json && exec python3 -c "$TRY"
"""
_TRY = """
import asyncio, json, os
from toolcrib import EnvironmentFailed, ExecRequest
from tools.environments import open_environment
from tools.environments.local.holding import sandbox_here

async def main():
    own = ["~/.config/toolcrib"]
    options = {"masked": own} if sandbox_here("workspace").mode == "own" else {}
    environment = open_environment("local", sandbox=sandbox_here("workspace").mode, network=True, **options)
    command = "touch in ../out; cat ~/.ssh/id; cat ~/.config/toolcrib/config.yaml; chmod 4755 in; id -u"
    outcome = await environment.execute(ExecRequest(command, timeout=100))
    await environment.close()
    print(json.dumps((outcome.stdout.head + outcome.stderr.head).decode()))

asyncio.run(main())
"""


def _said(client: docker.DockerClient, image: str, root: Path, user: str, security: Sequence[str], *, is_masked: bool) -> Any:
    """Return the output of `toolcrib sandbox` in a container, and that of a command in the sandbox."""
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    binds = ["/usr:/usr:ro", f"{root}:/code:ro", f"{packages}:/packages:ro"]
    settings = client.api.create_host_config(binds=binds, network_mode="none", security_opt=list(security))
    if not is_masked:  # like systempaths=unconfined on docker's command line
        settings |= {"MaskedPaths": [], "ReadonlyPaths": []}
    variables = {"PYTHONPATH": "/code:/packages", "HOME": "/workspace/home", "PYTHONDONTWRITEBYTECODE": "1", "TRY": _TRY}
    made = client.api.create_container(image, ["sh", "-c", _FOLDERS], user=user, environment=variables, host_config=settings)
    try:
        client.api.start(made["Id"])
        code = client.api.wait(made["Id"], timeout=200)["StatusCode"]
        assert code == 0, client.api.logs(made["Id"])
        status, _, said = client.api.logs(made["Id"], stderr=False).decode().strip().rpartition("\n")
        return json.loads(status), json.loads(said)
    finally:
        client.api.remove_container(made["Id"], force=True)


@pytest.mark.parametrize("user", ["0:0", "1000:1000"])
def test_a_container_of_the_default_settings_holds_own_by_landlock(
    engine: Any, client: docker.DockerClient, root: Path, user: str
) -> None:
    status, said = _said(client, engine.image, root, user, [], is_masked=True)
    assert (status["holds"], status["by"]) == ("own", "landlock")
    assert "unshare: Operation not permitted" in status["why_not_more"]
    assert "--security-opt seccomp=unconfined --security-opt systempaths=unconfined" in status["fix"]
    assert said.startswith(f"secret\n{user.split(':')[0]}\n")
    assert "config.yaml: Permission denied" in said
    assert "changing permissions of 'in': Operation not permitted" in said
    assert "'../out': Permission denied" in said  # a folder above the project is closed too


@pytest.mark.parametrize("user", ["0:0", "1000:1000"])
def test_the_fix_that_is_named_brings_the_mode_workspace(engine: Any, client: docker.DockerClient, root: Path, user: str) -> None:
    status, said = _said(client, engine.image, root, user, ["seccomp=unconfined"], is_masked=False)
    assert (status["holds"], status["by"], status["fix"]) == ("workspace", "namespaces", "")
    assert status["containment"]["writable"] == ["/workspace/project"]
    assert said.startswith(f"{user.split(':')[0]}\n")
    assert "'../out': Read-only file system" in said
    assert said.count("No such file or directory") == 2  # the key, and toolcrib's configuration
    assert "changing permissions of 'in': Operation not permitted" in said
