"""The chat's screen: rows that stay, live rows below them, and the line that is typed. It knows nothing of sessions.

``cells`` measures and breaks rows of styled text; ``themes`` says what a style looks like; ``painter`` writes a frame, and
never touches what it has finished. ``markdown`` turns a text that streams into rows (``markdown_blocks``, ``tables``,
``inline``, ``highlight`` are its parts). ``draft`` is what a person types, as rows and as text; ``keyboard`` reads their keys
(by ``bindings``) for ``key_receivers``. ``external_programs`` is for other programs on the same terminal, and ``tty`` the
terminal itself. ``frame`` puts it all together, at most thirty times a second.
"""
