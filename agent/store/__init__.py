"""The stores: conversations, runs, the inbox, calls, tickets, grants, the audit, leases, origins and old contents of files.

The protocols are in toolcrib/contract/store.py and toolcrib/contract/undo.py. ``sqlite`` is a store in a file, ``postgres/`` on a
server, ``memory`` in a SQLite database in memory (``_memory_database``), for one process; ``contents`` stores files' old contents
on disk.

SQLite: ``_database`` passes work to the writing thread (``_writer``, one transaction a batch) and to the reading threads
(``_readers``), and checks the lease within a write; ``_jobs`` makes work awaitable, ``_file`` opens the file. Each part has a
module: ``_ledger``, ``_tickets``, ``_grants``, ``_sessions``, ``_runs`` (also inbox and origins), ``_states``, ``_artifacts``
(large results, in a file of their own), ``_changes``, ``_leases``; ``_pruning`` deletes old rows. A new table or column is a
numbered file in ``sql/``, which ``_schema`` applies. ``_signals`` wakes other processes. ``_damage`` (with ``_cut_log``) detects
a damaged file, ``_backup`` backs it up; ``repair`` makes a new file from a backup (``_merging``) and from the readable rows
(``_rows``), which ``_drafting`` and ``_placing`` put in place, and ``_mending`` cleans up the restored data; ``_artifact_repair``
repairs artifacts.

Every store uses ``_codec`` and ``_steps`` (records as JSON), ``_shared`` (rules and messages) and ``_owner`` (names of lease
holders), and passes tests/agent/store/test_conformance*.py and test_changes.py; that folder's conftest.py lists the stores.
Stores on a database make their records with ``_from_rows`` and ``_from_gateway_rows``.
"""

from pathlib import Path

RECORD = ".store"
"""The ending of the file that records the use of a store outside the state folder."""


def is_link(path: Path) -> bool:
    """Return whether a path is a symbolic link; False in a folder that can't be read: reading the file reports that."""
    try:
        return path.is_symlink()
    except OSError:
        return False
