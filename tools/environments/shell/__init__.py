"""The shell that stays: one bash a session, fed line by line, framed by what its output cannot forge.

``driver`` is the text that bash reads, ``snapshot`` what it says about itself, ``folder`` the FIFOs between us, ``shell`` one
bash, ``call`` one command in it, ``pool`` the shells of one environment, ``launcher`` how a bash is started and ended here.
"""
