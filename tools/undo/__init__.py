"""Old contents of files that tools replaced, kept for a person who asks for an undo.

``keeper`` keeps them before a call replaces them, in ``contents``; ``choose`` says which changes an undo is about,
``restore`` does it, ``torn`` knows files that a killed process left half written, and ``locks`` lets one writer at a time to a
file. ``snapshots/`` keeps a whole project, for what commands change.
"""
