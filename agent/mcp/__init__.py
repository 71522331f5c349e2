"""MCP servers as sources of tools: the client of the Model Context Protocol.

``lock`` reads and writes the file of the tools that the user has seen; ``entries`` makes registry entries of them, without
starting a server. ``source`` adds them to a registry. ``hub`` starts servers at their first call, ``connection`` runs one,
``stdio`` transports its messages. ``results`` converts what a server returns.

The SDK (the package ``mcp``) is imported with the first start of a server, because it is slow to import.
"""
