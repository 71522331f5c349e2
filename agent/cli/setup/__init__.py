"""The wizard of ``toolcrib setup``: detect what it can, ask for the rest, test it, then write the configuration.

``person`` asks the user, if there is one; ``detection`` detects servers, keys and backends; ``wizard`` holds the answers, and
determines what to write; ``model``, ``backend`` and ``tools`` are its three parts, each with a choice and a test; ``flags``
checks the flags.
"""
