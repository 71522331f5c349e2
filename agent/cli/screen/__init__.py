"""The chat's screen: rows that stay, live rows below them, and the input line. It is independent of sessions.

``cells`` measures and breaks rows of styled text; ``themes`` defines the look of each style; ``painter`` writes a frame, and
never changes finished rows. ``markdown`` turns a streaming text into rows, with ``markdown_blocks``, ``tables``, ``inline`` and
``highlight``. ``draft`` is the user's input as rows and as text; ``keyboard`` reads keys, as ``bindings`` defines, for
``key_receivers``. ``external_programs`` runs other programs on the same terminal, and ``tty`` is the terminal itself. ``frame``
puts everything together, at most thirty times a second.
"""
