"""Schedules: what a text says about times, and which times those are.

``parse`` reads words, whose parts are in ``words``, and cron expressions; ``hints`` says what is missing in others.
``schedule`` has what they come to and its next times, ``zones`` the zones of the IANA database, and ``preview`` what people are
shown of a job that they are to agree to. Nothing here knows of jobs or stores.
"""
