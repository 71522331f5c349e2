"""Bundled plugins, loaded exactly like anyone else's and only where they are enabled: a folder each."""
