"""Snapshots of a whole project folder on this machine, and restoring the changes between two of them.

``project`` is the entry point: one ``Project`` for each root and process. ``scan`` compares the folder with the tree of the last
snapshot and reads what changed. ``watch`` names changed paths, so that a scan needs no walk; ``skips`` decides which folders are
left out. ``store`` keeps snapshots and entries in SQLite, ``packs`` keeps contents, ``restore`` writes entries back, and
``entries`` has the shared types. ``calls`` records what each call of a session changed, and ``writers`` names commands whose
programs change files in the background.
"""
