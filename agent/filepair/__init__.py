"""A file in memory that a model writes and edits, previewed while it does, several variants side by side.

``state`` holds the file and its two tools, ``preview`` reads arguments that are still coming, ``frontend`` words the events for a
front end, ``htmltext`` finds a page in plain text, and ``variants`` runs it all.
"""
