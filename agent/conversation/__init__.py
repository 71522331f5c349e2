"""A session and its runs, from a message to an answer, in this process or the next.

``session`` is the entry point: say, answer, interrupt, advance. ``core`` is the state that its parts share.
``agent.desk.opening`` creates or resumes a session. ``driving`` takes messages from the inbox and drives one run after another;
``turnstile`` admits one caller at a time, and ``holding`` keeps the lease.

A run: ``state`` is a run between two steps, frozen and stored as JSON; ``steps`` performs the steps; ``asking`` gets a reply
from the model over ``link``, and ``partial`` keeps an interrupted reply; ``limits`` has the limits of a run, ``structured``
checks answers against a schema. ``remembered`` reads the session's state; ``transcript`` has the records of a conversation
and repairs an interrupted turn. ``answers`` settles tickets from any process, and ``manager`` keeps many sessions in one
process.
"""
