"""A PostgreSQL server for a benchmark, started as for the tests."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.core import CannotMeasureError

_SCRIPT = Path(__file__).parents[1] / "tests" / "infra" / "postgres.py"
_LIMIT = 120.0


@contextlib.contextmanager
def postgres_url(*, durable: bool = True) -> Iterator[str]:
    """Yield the URL of an empty database. ``durable``: a commit is on disk. Raises CannotMeasureError if the server or the client
    is missing.
    """
    if importlib.util.find_spec("psycopg") is None:
        raise CannotMeasureError("psycopg is not installed: pip install 'toolcrib[postgres]'")
    options = ["--durable"] if durable else []
    process = subprocess.Popen([sys.executable, str(_SCRIPT), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        word, _, rest = process.stdout.readline().strip().partition(" ")
        if word != "ready":
            raise CannotMeasureError(f"no PostgreSQL server: {rest or 'it did not start'}")
        yield rest.partition(" ")[0]
    finally:
        process.communicate(timeout=_LIMIT)
