"""Imports sessions: from toolcrib's own export, and from the files of other tools.

``own`` reads toolcrib's JSON; ``claude_code``, ``codex`` and ``hermes`` read those tools' files, as public sources describe
them. ``session_files`` has the code that these readers share, ``turns`` creates records of a conversation, and ``keeping``
puts sessions into the store. A file may contain anything: unreadable parts are reported with their place and left out, and no
instruction in a file is followed (see agent.conversation.imported).
"""
