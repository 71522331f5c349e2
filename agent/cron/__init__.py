"""Jobs that run by a schedule, each as its creator and in a session of its own.

``plan`` is what a job is to do, ``service`` what a principal may do with jobs, ``handler`` the tool ``cronjob`` over it.
``runner`` claims times that are due, one process each, and ``once`` does so by hand; ``rights`` says who the creator is today
and opens the session, ``recovery`` begins it and looks after what other processes left. ``stopping`` ends what is under way.
``running`` tells whether somebody runs jobs, ``messages`` words the result of a run; agent/gateway/jobs.py sends it. Schedules
themselves are in tools/schedules, what is stored in toolcrib/contract/cron.py.
"""

PLATFORM = "cron"
"""Platform of jobs' sessions, whose toolset bounds what any job may do."""
CHANGED = "cron:changed"
"""Topic of the signal that jobs were added or changed."""


REMIND = "cron:remind:"
"""Beginning of the topic of the signal that a ticket of a job still waits, before the ticket's id."""


def news_of(platform: str) -> str:
    """Return the topic of the signal that a run has something to tell, or to ask, on a platform."""
    return f"cron:news:{platform}"
