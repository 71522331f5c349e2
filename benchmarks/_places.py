"""Real backends for the group "places": a container engine, an ssh server, and the vendors' own commands to reach them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.core import CannotMeasureError
from toolcrib import Environment
from tools.environments import open_environment

_INFRA = Path(__file__).parents[1] / "tests" / "infra"
_LIMIT = 120.0


@dataclass(frozen=True)
class Place:
    """A backend. ``vendor`` runs ``true`` in an environment with the vendor's command line over a warm connection; ``cold`` runs
    it without one, with the same options as ours.
    """

    name: str
    options: dict[str, Any]
    """Options for ``open_environment``."""
    vendor: Callable[[Environment], Sequence[str]]
    vendor_is: str
    cold: Callable[[], Sequence[str]] | None = None
    cold_is: str = ""
    backend: str = ""
    """The backend to pass to ``open_environment``; "" for ``name`` itself."""

    @property
    def kind(self) -> str:
        return self.backend or self.name

    def with_options(self, **more: Any) -> Place:
        """Return the place with further options."""
        return replace(self, options={**self.options, **more})

    def open(self, cwd: Path) -> Environment:
        """Open an environment. ``cwd`` is a folder on this machine; sessions on another host start in the home folder."""
        return open_environment(self.kind, cwd=None if self.name == "ssh" else str(cwd), **self.options)


def local() -> Place:
    return Place("local", {}, lambda environment: ["bash", "-c", "true"], 'subprocess.run(["bash", "-c", "true"])')


def bubblewrap() -> Place:
    """Return this machine's sandbox. It has no vendor's command."""
    return replace(local(), name="bubblewrap", options={"sandbox": "bubblewrap"}, backend="local")


@contextlib.contextmanager
def docker(cwd: Path) -> Iterator[Place]:
    """Run an engine of its own, and yield it. Raises CannotMeasureError if that is not possible."""
    with _server("dockerd.py") as said:
        socket, image = said
        options = {"image": image, "host": f"unix://{socket}", "mounts": ["/usr:/usr:ro"]}
        cli = ["docker", "-H", f"unix://{socket}"]

        def vendor(environment: Environment) -> Sequence[str]:
            return [*cli, "exec", environment.identity.removeprefix("docker:"), "true"]

        def cold() -> Sequence[str]:
            return [*cli, "run", "--rm", *_flags(cwd, options), image, "true"]

        yield Place("docker", options, vendor, "docker exec CONTAINER true", cold, "docker run with the same options")


def _flags(cwd: Path, options: dict[str, Any]) -> list[str]:
    """Return the options given to docker-py as flags of the command line."""
    from tools.environments.docker import open_docker

    environment = open_docker(str(cwd), **options)
    made = environment._link.options.create()  # type: ignore[attr-defined]  # the options must be exactly the same
    flags = ["--init", "--entrypoint", ""]
    pairs = {"user": "--user", "mem_limit": "--memory", "memswap_limit": "--memory-swap", "pids_limit": "--pids-limit"}
    for name, flag in {**pairs, "network_mode": "--network", "working_dir": "--workdir"}.items():
        flags += [flag, str(made[name])]
    flags += ["--cpus", str(made["nano_cpus"] / 1e9), *(["--read-only"] if made["read_only"] else []), "--log-driver", "none"]
    for value in made["cap_drop"]:
        flags += ["--cap-drop", value]
    for value in made["security_opt"]:
        flags += ["--security-opt", value]
    for path, value in made["tmpfs"].items():
        flags += ["--tmpfs", f"{path}:{value}"]
    for value in made["volumes"]:
        flags += ["--volume", value]
    for name, value in [*made["environment"].items()]:
        flags += ["--env", f"{name}={value}"]
    return flags


@contextlib.contextmanager
def ssh(settings: Sequence[str] = ()) -> Iterator[Place]:
    """Run a server with its default limits, and yield it. Raises CannotMeasureError if that is not possible."""
    with _server("sshd.py", *settings) as said, contextlib.ExitStack() as stack:
        folder, host, port, user = said
        options = {"host": host, "port": int(port), "user": user}
        keys = {"identity_file": f"{folder}/id", "known_hosts": f"{folder}/known_hosts"}
        cli = ["ssh", "-F", "none", "-p", port, "-i", keys["identity_file"], "-o", f"UserKnownHostsFile={keys['known_hosts']}"]
        cli += ["-o", "BatchMode=yes", "-o", "GlobalKnownHostsFile=none"]
        to = f"{user}@{host}"
        master = f"{folder}/master"
        subprocess.run([*cli, "-M", "-S", master, "-o", "ControlPersist=yes", to, "true"], check=True, capture_output=True)
        stack.callback(subprocess.run, [*cli, "-S", master, "-O", "exit", to], check=False, capture_output=True)
        yield Place(
            "ssh",
            {**options, **keys},
            lambda environment: [*cli, "-S", master, to, "true"],
            "OpenSSH with ControlMaster",
            lambda: [*cli, to, "true"],
            "ssh HOST true",
        )


@contextlib.contextmanager
def _server(script: str, *options: str) -> Iterator[list[str]]:
    process = subprocess.Popen(
        [sys.executable, str(_INFRA / script), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        word, _, rest = process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise CannotMeasureError(f"{script}: {rest or 'it did not start'}")
        yield rest.split()
    finally:
        process.communicate(timeout=_LIMIT)
