"""A persistent shell somewhere else: what docker and ssh have in common.

``channel`` is what a backend must offer, ``frame`` tells a command's end from its output, ``shell_channel`` is one bash that runs
our scripts or keeps a session's shell alive, ``channel_pool`` all of one environment. ``environment`` is the whole, over
``shell``, its ``state``, ``beginning`` and ``call`` (one command), ``spawned`` (one beside the others) and ``files``; ``once``
and ``aside`` are work of its own. ``oneshot`` runs commands where bash is missing, ``processes`` finds what runs, ``left``
ends what a killed toolcrib left.
"""
