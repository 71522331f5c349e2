"""The stores: calls, tickets, grants, the audit, conversations, runs, leases, and what file tools replaced.

The protocols stand in toolcrib/_store.py and toolcrib/_undo.py. ``sqlite`` keeps all of it on disk, ``postgres/`` on a
server, ``memory`` for one process, and ``contents`` keeps files' old contents on disk.

SQLite: ``_database`` hands work to the thread that writes (``_writer``, one transaction a batch) and to those that read
(``_readers``); ``_jobs`` is how it is awaited. There is a module for each member: ``_ledger``, ``_tickets``, ``_sessions``,
``_runs`` ... A new table or column is a numbered file in ``sql/``. ``_signals`` wakes other processes.

Every store uses ``_codec`` and ``_steps`` (records as JSON), ``_shared`` (rules and messages) and ``_owner`` (who holds a
lease), and passes tests/agent/store/test_conformance*.py and test_changes.py, by a name in that folder's conftest.py.
"""
