"""A process that starts others quickly: it has loaded toolcrib once, and forks.

Reads a job per line, as JSON: {"argv", "cwd", "env", "input", "out", "err", "tty"} (paths of files, "" for none). It answers with
the id of the process that runs ``toolcrib ARGV``, in its own session, and then with its exit code; less than 0 for a signal.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import pkgutil
import sys
import traceback
from typing import Any

PACKAGES = ("tools", "agent")
OTHERS = ("anyio._backends._asyncio", "h11", "httpcore", "httpx", "jsonschema_rs", "yaml")


def run(job: dict[str, Any]) -> int:
    """Run a job in this process."""
    os.setsid()
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    out = os.open(job["out"], os.O_WRONLY)
    err = os.open(job["err"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    given = os.open(job["tty"] or job["input"] or os.devnull, os.O_RDWR if job["tty"] else os.O_RDONLY)  # it is free now
    for number, opened in enumerate((given, out, err)):
        os.dup2(opened, number)
    os.closerange(3, 64)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - our own was read from
    from agent.cli import main
    from agent.conversation import holding

    holding.LEASE_SECONDS = float(os.environ.get("KILLS_LEASE_SECONDS", holding.LEASE_SECONDS))

    return main(job["argv"])


def load() -> None:
    """Import all modules of toolcrib that need only installed packages, and its late imports."""
    importlib.import_module("model_tools")  # first: it registers the tools in their order
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.", onerror=lambda name: None):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)
    for name in OTHERS:
        importlib.import_module(name)


def serve() -> None:
    load()
    print("up", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                code = run(json.loads(line))
            except SystemExit as end:
                code = int(end.code or 0) if isinstance(end.code, int | None) else 1
            except BaseException:  # noqa: BLE001 - it goes to the job's error output, which is checked
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
