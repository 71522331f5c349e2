"""What the file tools stand on. ``tools/file_tools.py`` registers them."""
