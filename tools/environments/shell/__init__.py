"""The persistent shell: one bash per session, fed line by line, with frames that its output cannot forge.

``driver`` is the text that bash reads, ``snapshot`` its reported state, ``folder`` the FIFOs for communication, ``shell`` one
bash, ``call`` one command in it, ``pool`` the shells of one environment, and ``launcher`` starts and ends a bash on this machine.
``spawned`` is a background command, ``terminal`` one in a terminal, ``outcome`` the result of a command, ``linger`` the later
output of a background process.
``live`` counts the shells of the process and suspends the least recently used ones. ``kept`` (with ``packed`` and ``beyond``)
keeps their state for the next shell. ``ending`` interrupts a command, ``reaper`` ends shells, ``watchdog`` those of a killed
process.
"""
