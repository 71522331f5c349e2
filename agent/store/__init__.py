"""What is remembered: calls, tickets, grants, the audit, conversations, and what file tools replaced.

The protocols stand in toolcrib/_store.py and toolcrib/_undo.py. ``sqlite`` keeps them on disk, put together of one module each
over ``_database``; ``memory`` keeps them for one process; ``contents`` keeps files' old contents. A new table or column is a
numbered file in ``sql/``. tests/agent/store/test_conformance.py runs over every store.
"""
