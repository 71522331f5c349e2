"""The stores: conversations, runs, the inbox, calls, tickets, grants, the audit, leases, origins and replaced contents of files.

The protocols are in toolcrib/contract/store.py and toolcrib/contract/undo.py. ``sqlite`` keeps all of it in a file, ``postgres/``
on a server, ``memory`` in a SQLite database in memory (``_memory_database``), for one process; ``contents`` keeps files' old
contents on disk.

SQLite: ``_database`` hands work to the thread that writes (``_writer``, one transaction a batch) and to those that read
(``_readers``), and checks the lease within a write; ``_jobs`` is how work is awaited, ``_file`` opens the file. There is a
module for each member: ``_ledger``, ``_tickets``, ``_grants``, ``_sessions``, ``_runs`` (also inbox and origins), ``_states``,
``_artifacts`` (large results, in a file of their own), ``_changes``, ``_leases``; ``_pruning`` forgets. A new table or column
is a numbered file in ``sql/``, which ``_schema`` applies. ``_signals`` wakes other processes. ``_damage`` (with ``_cut_log``)
finds a file damaged, ``_backup`` copies one; ``repair`` makes one anew of a copy (``_merging``) and of the rows that can still
be read (``_rows``), in the place that ``_drafting`` and ``_placing`` give it, and ``_mending`` puts in order what was restored;
``_artifact_repair`` does so for artifacts.

Every store uses ``_codec`` and ``_steps`` (records as JSON), ``_shared`` (rules and messages) and ``_owner`` (who holds a
lease), and passes tests/agent/store/test_conformance*.py and test_changes.py, by a name in that folder's conftest.py. Those on a
database make their records with ``_from_rows`` and ``_from_gateway_rows``.
"""
