"""The loop and everything that drives it.

``run`` puts it all together and holds ``Agent``; ``crib`` is what one process has, ``session`` one conversation in it, ``loop``
goes from what the person said to the answer. Which model: ``models``, ``calling``, ``fallback``; ``catalog`` lists what there is.
Grants of tools: ``granting``; approvals: ``allowlist``, ``approvals``, ``smart``. Backends: ``places``.
"""
