"""Background processes of sessions, as a user sees them in any process of toolcrib.

``viewing`` shows and ends the processes of an open session. Only the process that has a session open can reach its sandbox,
container or host, so it answers the requests of other processes: ``serving`` answers, ``requests`` asks. ``reaching`` collects
the processes of all sessions, and ``counting`` counts those of a principal.
"""
