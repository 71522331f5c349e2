"""The built-in tools, one module per family (``NAME_tool.py``), and their common parts.

``dispatch`` runs a call, ``approval`` decides about it, ``environments`` runs commands; ``files`` and ``undo`` serve the file
tools. ``arguments``, ``availability``, ``clip`` and ``redact`` serve every tool; ``alive`` checks whether a process runs;
``installed`` finds toolcrib's own code, which no tool may change.
"""
