"""Undo: keep the contents of files before tools replace them, and restore them when a person asks for it."""
