"""A file in memory that a model writes and edits, with live previews and several variants side by side.

``state`` has the file and its two tools, ``preview`` reads arguments that are still arriving, ``frontend`` turns events into
messages for a front end, ``htmltext`` finds a page in plain text, and ``variants`` runs everything.
"""
