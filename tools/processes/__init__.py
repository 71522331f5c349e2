"""Background processes of a session: started, watched, typed into, found again and ended.

Everything here stands on two methods of an environment, ``execute`` and ``spawn``, so that it works on every backend. A process
lives in the environment as a small tree: a keeper, which records the exit code and the log in a private folder, and below it
the command. The keeper leaves the session's shell, so the process outlives toolcrib, and the next toolcrib finds it by its
folder. ``table`` has the processes of one session, ``helper`` the shell that reads those folders, ``scripts`` the text that
both run.
"""
