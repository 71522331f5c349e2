"""A session and its runs, from a message to an answer, in this process or the next.

``session`` is the one way in: say, answer, interrupt, advance; ``core`` is what it has, which its parts share; ``opening`` makes
one or resumes a stored one. ``driving`` takes messages from the inbox and drives one run after another, as ``turnstile`` lets
callers in and under the lease of ``holding``.

A run: ``state`` is one as it stands between two steps, frozen and written as JSON; ``steps`` does one step after another;
``asking`` is one reply of the model, by way of ``link``, and ``partial`` one that was broken off; ``limits`` bound what a run
may cost, ``structured`` holds answers to a schema. ``remembered`` reads its state; ``transcript`` knows the records of a
conversation and repairs a turn that was broken off. ``answers`` settles tickets from any process, and ``manager`` keeps many
sessions in one process.
"""
