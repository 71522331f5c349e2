"""Old contents of files that tools replaced, kept for undo.

``keeper`` stores them in ``contents`` before a call replaces them. ``choose`` selects the changes of an undo, and ``restore``
reverts them. ``torn`` detects files that a killed process left half written, and ``locks`` allows one writer at a time for a
file. ``snapshots/`` keeps a whole project, for changes by commands.
"""
