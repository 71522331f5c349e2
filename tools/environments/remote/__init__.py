"""A persistent shell somewhere else: what docker and ssh have in common.

``channel`` is what a place must offer, ``frame`` how the end of a command is told from its output, ``keeper`` one bash that
runs our scripts or keeps a session's shell alive, ``call`` one command in it, ``environment`` the whole, ``files`` the files.
``oneshot`` is what runs commands where bash is missing, ``left`` what ends that of a toolcrib that was killed.
"""
