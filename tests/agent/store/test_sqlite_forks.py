"""A store that is created before a fork and first used after it."""

from __future__ import annotations

import asyncio
import os
import warnings
from pathlib import Path

from agent.store._database import Database


def test_a_late_database_serves_a_fork_from_its_first_use_on(tmp_path: Path) -> None:
    database = Database(tmp_path / "store.db", "NORMAL", late=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12+ warns of a fork with threads, the point here
        child = os.fork()
    if not child:
        status = 1
        try:
            asyncio.run(database.run("CREATE TABLE t (x)"))
            asyncio.run(database.run("INSERT INTO t VALUES (1)"))
            database.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert asyncio.run(database.row("SELECT x FROM t")) == (1,)
    database.close()
