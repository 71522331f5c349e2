"""The built-in tools, one module a family (``NAME_tool.py``), and what tools stand on.

``dispatch`` runs a call, ``approval`` judges it, ``environments`` is where it runs; ``files`` and ``undo`` serve the file tools.
``arguments``, ``availability``, ``clip`` and ``redact`` serve every tool, ``alive`` whoever asks for a process;
``installed`` finds our own code, which no tool changes.
"""
