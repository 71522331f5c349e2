"""Sessions from elsewhere: our own export, and what other tools remember of theirs.

``own`` reads our JSON; ``claude_code``, ``codex`` and ``hermes`` read those tools' files, each as public sources describe them.
``session_files`` is what they share, ``turns`` makes records of what was said, and ``keeping`` puts sessions into the store.
A file may hold anything: what can't be read is reported with its place and left out, and nothing of it is gone by (see
agent.conversation.imported).
"""
