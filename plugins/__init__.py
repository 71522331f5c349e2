"""Bundled plugins, a folder each. They load like any other plugin, and only if they are enabled."""
