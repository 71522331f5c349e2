"""The store on a PostgreSQL server, for several processes on several machines.

``store`` combines all parts. ``address`` parses the URL, ``_loop`` is the thread that owns all connections, ``_pool`` keeps them,
``_database`` runs statements on them and guards the statements of a fenced view; each other module implements protocols of
toolcrib/contract/store.py. A new table or column is a numbered file in ``sql/``. psycopg is imported when a server is first used.
"""
