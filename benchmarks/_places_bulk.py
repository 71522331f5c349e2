"""Measured process for 100 MB of output: python -m benchmarks._places_bulk NAME OPTIONS CWD ROUNDS

Prints {"seconds": through the terminal tool, "raw": through the bare channel of the same library, "memory": growth in MB of this
process's peak memory}. The bare channel runs last, so that its memory does not count.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

COMMAND = "yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde | head -c 104857600"
_SIZE = 104_857_600


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _check(total: int) -> None:
    if total != _SIZE:
        raise SystemExit(f"{total:,} bytes arrived of {_SIZE:,}")


def _raw_local(options: dict[str, Any], cwd: str) -> Callable[[], None]:
    def run() -> None:
        with subprocess.Popen(["bash", "-c", COMMAND], stdout=subprocess.PIPE, bufsize=0, cwd=cwd) as process:
            assert process.stdout is not None
            total = 0
            while chunk := process.stdout.read(65536):
                total += len(chunk)
        _check(total)

    return run


def _raw_docker(options: dict[str, Any], cwd: str) -> Callable[[], None]:
    import docker

    client = docker.DockerClient(options["host"])
    container = client.containers.list()[0]

    def run() -> None:
        _, output = container.exec_run(["bash", "-c", COMMAND], stream=True, demux=True)
        _check(sum(len(out or b"") for out, _ in cast("Iterator[tuple[bytes | None, bytes | None]]", output)))

    return run


def _raw_ssh(options: dict[str, Any], cwd: str) -> Callable[[], None]:
    import paramiko

    client = paramiko.SSHClient()
    client.load_host_keys(options["known_hosts"])
    client.connect(
        options["host"],
        options["port"],
        options["user"],
        key_filename=options["identity_file"],
        allow_agent=False,
        look_for_keys=False,
    )

    def run() -> None:
        channel = client.get_transport().open_session()  # type: ignore[union-attr]  # it is connected
        channel.exec_command(COMMAND)
        total = 0
        while chunk := channel.recv(65536):
            total += len(chunk)
        _check(total)

    return run


_RAW = {"local": _raw_local, "docker": _raw_docker, "ssh": _raw_ssh}


def main(name: str, options: dict[str, Any], cwd: str, rounds: int) -> None:
    import model_tools
    from benchmarks._places import Place
    from toolcrib import RunIdentity
    from tools.dispatch.bridge import run_async
    from tools.dispatch.scope import CallScope

    place = Place(name, options, lambda environment: [], "")
    scope = CallScope(identity=RunIdentity("bench-bulk"), open_environment=lambda: place.open(Path(cwd)))

    def ours(command: str = COMMAND) -> float:
        begin = time.perf_counter()
        answer = json.loads(model_tools.handle_function_call("terminal", {"command": command}, scope=scope))
        took = time.perf_counter() - begin
        if answer.get("exit_code") != 0:
            raise SystemExit(f"{answer}")
        if command == COMMAND:
            _check(len(answer["output"].encode()) - len(_gap(answer)) + answer["truncated"]["output"]["omitted_bytes"])
        return took

    ours("seq 100000")  # warms the session
    before = peak()
    first = ours()
    grown = peak() - before
    raw = _RAW[name](options, cwd)
    seconds, bare = [first], []
    for _ in range(rounds):
        begin = time.perf_counter()
        raw()
        bare.append(time.perf_counter() - begin)
        seconds.append(ours())
    run_async(scope.close())
    print(json.dumps({"seconds": statistics.median(seconds), "raw": statistics.median(bare), "memory": grown}))


def _gap(answer: dict[str, Any]) -> str:
    return f"\n[... {answer['truncated']['output']['omitted_bytes']:,} bytes omitted ...]\n"


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
