-- Scheduled jobs, and each time that one was due.

CREATE TABLE toolcrib.cron_jobs (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  owner text NOT NULL, -- the key of its creator, a principal
  state text NOT NULL CHECK (state IN ('active', 'paused', 'done', 'removed')),
  next_at float8, -- NULL: it is not due
  version bigint NOT NULL, -- counts its changes, from 1
  change bigint NOT NULL UNIQUE, -- number of the last one, over all jobs
  body text NOT NULL -- JSON
);
CREATE INDEX cron_jobs_by_owner ON toolcrib.cron_jobs (md5(owner));

CREATE TABLE toolcrib.cron_runs (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_id text COLLATE "C" NOT NULL,
  due_at float8 NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  state text NOT NULL CHECK (state IN ('running', 'done', 'failed', 'refused', 'skipped', 'lost')),
  platform text COLLATE "C" NOT NULL, -- where it is told what it came to; empty: nowhere
  is_told boolean NOT NULL,
  started_at float8 NOT NULL,
  ended_at float8, -- NULL: it is under way
  note text NOT NULL,
  UNIQUE (job_id, due_at)
);
CREATE INDEX cron_runs_by_session ON toolcrib.cron_runs (session_id);
CREATE INDEX cron_runs_under_way ON toolcrib.cron_runs (job_id) WHERE state = 'running';
CREATE INDEX cron_runs_untold ON toolcrib.cron_runs (platform, row) WHERE ended_at IS NOT NULL AND NOT is_told AND platform <> '';
CREATE INDEX cron_runs_over ON toolcrib.cron_runs (ended_at) WHERE ended_at IS NOT NULL;
