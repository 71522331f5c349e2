-- Columns that hold text hold a BLOB of the same UTF-8 where that text has lone surrogates. Times are Unix seconds.

CREATE TABLE sessions (
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  platform TEXT NOT NULL,
  user TEXT NOT NULL,
  model TEXT NOT NULL,
  cwd TEXT NOT NULL,
  title TEXT NOT NULL DEFAULT '',
  spoken INTEGER NOT NULL DEFAULT 0, -- a user said something
  messages INTEGER NOT NULL DEFAULT 0,
  created_at REAL NOT NULL,
  updated_at REAL NOT NULL
);
CREATE INDEX sessions_by_use ON sessions (updated_at) WHERE spoken;

CREATE TABLE messages (
  row INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
  seq INTEGER NOT NULL, -- 0, 1, 2 ... within its session
  body TEXT NOT NULL, -- JSON
  UNIQUE (session, seq)
);

-- One row a call. Providers repeat call ids: the newest row of an id is meant.
CREATE TABLE calls (
  row INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  call TEXT NOT NULL, -- JSON: name, args, fault
  status TEXT NOT NULL DEFAULT 'new'
    CHECK (status IN ('new', 'running', 'suspended', 'resuming', 'succeeded', 'failed', 'cancelled')),
  handler_started INTEGER NOT NULL DEFAULT 0,
  result TEXT, -- JSON
  owner TEXT NOT NULL, -- the process that moves it
  opened_at REAL NOT NULL,
  ended_at REAL
);
CREATE INDEX calls_by_id ON calls (session_id, call_id);
CREATE UNIQUE INDEX calls_under_way ON calls (session_id, call_id)
  WHERE status IN ('new', 'running', 'suspended', 'resuming');

CREATE TABLE tickets (
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL,
  call_id TEXT,
  call_row INTEGER REFERENCES calls (row) ON DELETE CASCADE,
  state TEXT NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired')),
  ticket TEXT NOT NULL, -- JSON
  answer TEXT, -- JSON
  decision_id TEXT UNIQUE,
  at REAL NOT NULL,
  expires_at REAL
);
CREATE INDEX tickets_by_call ON tickets (session_id, call_id);
CREATE INDEX tickets_pending ON tickets (session_id) WHERE state = 'pending';
CREATE INDEX tickets_by_call_row ON tickets (call_row);

CREATE TABLE grants (
  row INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  session_id TEXT NOT NULL,
  scope TEXT NOT NULL,
  uses_left INTEGER,
  body TEXT NOT NULL -- JSON: the rest
);
CREATE INDEX grants_by_session ON grants (session_id);

CREATE TABLE audit (
  row INTEGER PRIMARY KEY,
  at REAL NOT NULL,
  session_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  decision TEXT NOT NULL,
  by TEXT NOT NULL,
  detail TEXT NOT NULL -- JSON
);
CREATE INDEX audit_by_session ON audit (session_id);
