"""The way of one call, whoever makes it.

``pipeline`` is the whole: prepare, gate, act, finish; ``gates``, ``act`` and ``finish`` are its steps, ``run`` is what is known
of one call on it. ``batch`` runs all calls of a turn, some of which may wait for answers (``answers``) and are overtaken only
by what ``overlap`` lets pass; ``after`` does what plugins scheduled, ``states`` keeps what is written to the state. ``scope``
is a session's side; ``hooks`` knows the plugins' hooks, ``bridge`` and ``threads`` lead from sync code to async and back;
``gate_threads`` calls plugins' synchronous gates;
``json_results`` words failures, ``where`` adds the environment to results; ``preload`` loads all of it before a call acts.
"""
