"""Snapshots of a whole project folder on this machine, and restoring what changed between two of them.

``project`` is the way in: one ``Project`` for a root and process. ``scan`` compares the folder with the ``tree`` that the last
snapshot left, and reads what changed; ``watch`` names what changed, so that a scan needs no walk; ``skips`` says which folders
are left out. ``store`` keeps snapshots and entries in SQLite, ``packs`` keeps contents; ``restore`` writes entries back, and
``entries`` has the types that all share. ``calls`` records what each call of a session changed, and ``writers`` names the
commands whose programs change files in the background.
"""
