"""Runs of a session: from a message to an answer, in this process or the next.

``state`` is a run as it stands between two steps, frozen and written as JSON; ``steps`` does one step after another; ``session``
is the one way in: say, answer, interrupt, advance. ``transcript`` knows the records of a conversation, ``limits`` what a run may
cost, ``structured`` answers as data, ``asking`` one reply of the model, ``turnstile`` who may drive a session. ``manager`` keeps
many sessions in one process.
"""
