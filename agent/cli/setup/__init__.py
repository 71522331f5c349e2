"""The wizard of ``toolcrib setup``: it looks, asks what can't be found out, tries each answer, and writes once at the end.

``person`` asks, if a person is there; ``detection`` finds out; ``wizard`` holds the answers, and what of them is to be written;
``model``, ``backend`` and ``tools`` are its three parts, each with a choice and a trial; ``flags`` checks what was given.
"""
