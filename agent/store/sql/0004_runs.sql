-- Runs that outlive their process: leases with fencing tokens, runs by step, an inbox, where files came from, reminders.

-- A row stays for good, so that a token never comes again.
CREATE TABLE leases (
  name TEXT PRIMARY KEY, -- a session's id
  owner TEXT NOT NULL,
  token INTEGER NOT NULL,
  expires_at REAL NOT NULL -- by the database's clock; 0: given back
);

CREATE TABLE runs (
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'parked', 'ended')),
  step INTEGER NOT NULL,
  state TEXT NOT NULL, -- JSON
  updated_at REAL NOT NULL
);
CREATE INDEX runs_by_session ON runs (session_id);
CREATE INDEX runs_parked ON runs (updated_at) WHERE status = 'parked';
CREATE INDEX runs_running ON runs (session_id) WHERE status = 'running';

CREATE TABLE inbox (
  row INTEGER PRIMARY KEY AUTOINCREMENT, -- a number never means another item
  session_id TEXT NOT NULL,
  key TEXT NOT NULL, -- the sender's own; it stays known
  taken INTEGER NOT NULL DEFAULT 0,
  body TEXT NOT NULL, -- JSON; empty once it was taken
  at REAL NOT NULL
);
CREATE UNIQUE INDEX inbox_by_key ON inbox (session_id, key) WHERE key <> '';
CREATE INDEX inbox_waiting ON inbox (session_id) WHERE NOT taken;

CREATE TABLE origins (
  session_id TEXT NOT NULL,
  path TEXT NOT NULL,
  bits INTEGER NOT NULL,
  PRIMARY KEY (session_id, path)
) WITHOUT ROWID;

ALTER TABLE sessions ADD COLUMN host TEXT NOT NULL DEFAULT '';
ALTER TABLE grants ADD COLUMN principal TEXT NOT NULL DEFAULT '';

-- Calls lose ``owner`` and get ``token``; tickets name them. Both are made anew: SQLite before 3.35 drops no column.
CREATE TABLE new_calls (
  row INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  call TEXT NOT NULL, -- JSON: name, args, fault
  status TEXT NOT NULL DEFAULT 'new'
    CHECK (status IN ('new', 'running', 'suspended', 'resuming', 'succeeded', 'failed', 'cancelled')),
  handler_started INTEGER NOT NULL DEFAULT 0,
  result TEXT, -- JSON
  token INTEGER NOT NULL DEFAULT 0, -- of the lease that it was opened or last moved under; 0 for none
  opened_at REAL NOT NULL,
  ended_at REAL
);
INSERT INTO new_calls (row, session_id, call_id, call, status, handler_started, result, opened_at, ended_at)
  SELECT row, session_id, call_id, call, status, handler_started, result, opened_at, ended_at FROM calls;

CREATE TABLE new_tickets (
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL,
  call_id TEXT,
  call_row INTEGER REFERENCES new_calls (row) ON DELETE CASCADE,
  state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired')),
  ticket TEXT NOT NULL, -- JSON
  answer TEXT, -- JSON
  decision_id TEXT UNIQUE,
  at REAL NOT NULL,
  expires_at REAL,
  remind_at REAL
);
INSERT INTO new_tickets (row, id, session_id, call_id, call_row, state, ticket, answer, decision_id, at, expires_at)
  SELECT row, id, session_id, call_id, call_row, state, ticket, answer, decision_id, at, expires_at FROM tickets;

DROP TABLE tickets;
DROP TABLE calls;
ALTER TABLE new_calls RENAME TO calls;
ALTER TABLE new_tickets RENAME TO tickets;

CREATE INDEX calls_by_id ON calls (session_id, call_id);
CREATE UNIQUE INDEX calls_under_way ON calls (session_id, call_id)
  WHERE status IN ('new', 'running', 'suspended', 'resuming');
CREATE INDEX tickets_by_call ON tickets (session_id, call_id);
CREATE INDEX tickets_pending ON tickets (session_id) WHERE state = 'pending';
CREATE INDEX tickets_by_call_row ON tickets (call_row);
CREATE INDEX tickets_due ON tickets (remind_at) WHERE state = 'pending' AND remind_at IS NOT NULL;
