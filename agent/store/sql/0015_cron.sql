-- Scheduled jobs, and each time that one was due.

CREATE TABLE cron_jobs (
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL, -- the key of its creator, a principal
  state TEXT NOT NULL CHECK (state IN ('active', 'paused', 'done', 'removed')),
  next_at REAL, -- NULL: it is not due
  version INTEGER NOT NULL, -- counts its changes, from 1
  change INTEGER NOT NULL, -- number of the last one, over all jobs
  body TEXT NOT NULL -- JSON
);
CREATE UNIQUE INDEX cron_jobs_changed ON cron_jobs (change);
CREATE INDEX cron_jobs_by_owner ON cron_jobs (owner);

CREATE TABLE cron_runs (
  row INTEGER PRIMARY KEY,
  due_at REAL NOT NULL,
  job_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'refused', 'skipped', 'lost')),
  platform TEXT NOT NULL, -- where it is told what it came to; empty: nowhere
  is_told INTEGER NOT NULL,
  started_at REAL NOT NULL,
  ended_at REAL, -- NULL: it is under way
  note TEXT NOT NULL,
  UNIQUE (due_at, job_id)
);
CREATE INDEX cron_runs_by_job ON cron_runs (job_id, due_at);
CREATE INDEX cron_runs_by_session ON cron_runs (session_id);
CREATE INDEX cron_runs_under_way ON cron_runs (job_id) WHERE state = 'running';
CREATE INDEX cron_runs_untold ON cron_runs (platform) WHERE ended_at IS NOT NULL AND NOT is_told AND platform <> '';
CREATE INDEX cron_runs_over ON cron_runs (ended_at) WHERE ended_at IS NOT NULL;
