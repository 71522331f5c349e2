"""Schedules: parse a text about times, and compute those times.

``parse`` has the table of supported forms: English phrases, ISO times and cron expressions. ``schedule`` has the parsed form and
its next times, ``zones`` the zones of the IANA database, and ``preview`` the text about a job that a user must approve. Only
``preview`` knows of jobs, and no module here knows of stores.
"""
