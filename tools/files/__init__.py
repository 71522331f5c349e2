"""The parts that the file tools are made of. ``tools/file_tools.py`` registers the tools."""
