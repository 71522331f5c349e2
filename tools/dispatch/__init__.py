"""The dispatch of one call, from any caller.

``pipeline`` runs its steps: prepare, gate, act, finish. ``gates``, ``act`` and ``finish`` implement the last three. ``batch``
runs all calls of a turn; a call that waits for an answer (``answers``) is only overtaken by calls that ``overlap`` allows.
``after`` runs work that plugins scheduled, ``states`` stores the state that calls change, ``scope`` holds the session that the
calls belong to. ``progress`` reports output of running calls. ``hooks`` holds the plugins' hooks, ``bridge`` and ``threads``
connect sync and async code, and ``gate_threads`` calls plugins' synchronous gates. ``json_results`` formats failures, ``where``
adds the environment to results, and ``preload`` imports everything before a call acts.
"""
