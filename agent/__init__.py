"""The agent: sessions, their runs, and everything that drives them.

``run`` puts it all together and holds ``Agent``. ``crib`` is what one process has, ``workspace`` a project folder in it with its
policy, ``conversation`` a session and its runs; ``lifecycle`` starts plugins and platforms. Which model: ``models``, ``calling``,
``fallback``; ``catalog`` lists what there is. What is granted: ``granting``; what was agreed: ``allowlist``, ``grants``,
``approvals``, ``smart``. Where it runs: ``places``.
"""
