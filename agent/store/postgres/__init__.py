"""The store on a PostgreSQL server, for several processes on several machines.

``store`` puts it together. ``address`` reads the URL, ``_loop`` is the thread that all connections belong to, ``_pool`` keeps
them, ``_database`` runs statements on them and guards those of a fenced view; each other module implements protocols of
toolcrib/contract/store.py. A new table or column is a numbered file in ``sql/``. psycopg is imported when a server is first used.
"""
