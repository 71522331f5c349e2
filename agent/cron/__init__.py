"""Jobs that run on a schedule, each as its creator and in its own session.

``plan`` is the content of a job, ``service`` the actions of a principal on jobs, ``handler`` runs the tool ``cronjob``.
``runner`` claims due times, each for one process, and ``once`` runs a job by hand; ``rights`` finds the creator's current
rights and builds the session's request, ``recovery`` begins runs and takes over those of ended processes. ``stopping`` ends
runs. ``running`` checks whether any process runs jobs, ``messages`` formats the result of a run; agent/gateway/jobs.py sends
it. Schedules are in tools/schedules, stored records in toolcrib/contract/cron.py.
"""

PLATFORM = "cron"
"""Platform of jobs' sessions; its toolset limits every job."""
CHANGED = "cron:changed"
"""Topic of the signal that jobs were added or changed."""


REMIND = "cron:remind:"
"""Prefix of the topic of the signal that a job's ticket is still open; the ticket's id follows."""


def news_of(platform: str) -> str:
    """Return the topic of the signal that a run has a result or a question for a platform."""
    return f"cron:news:{platform}"
