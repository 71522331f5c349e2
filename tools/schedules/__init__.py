"""Schedules: what a text says about times, and which times those are.

``parse`` has the table of the forms that a schedule may have: some in English, ISO times and cron expressions.
``schedule`` has what they come to and its next times, ``zones`` the zones of the IANA database, and ``preview`` what people are
shown of a job that they are to agree to. Nothing here knows of jobs or stores.
"""
