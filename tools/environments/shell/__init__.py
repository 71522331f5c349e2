"""The shell that stays: one bash a session, fed line by line, framed by what its output cannot forge.

``driver`` is the text that bash reads, ``snapshot`` what it says about itself, ``folder`` the FIFOs between us, ``shell`` one
bash, ``call`` one command in it, ``pool`` the shells of one environment, ``launcher`` how a bash is started and ended here.
``spawned`` is a command beside the others, ``outcome`` how a command ended, ``linger`` what a background process still prints.

``live`` counts the shells of the process and lets those rest that were used longest ago; ``kept`` (with ``packed`` and
``beyond``) has their state for the next one. ``ending`` interrupts a command, ``reaper`` ends shells, ``watchdog`` those of a
killed process.
"""
