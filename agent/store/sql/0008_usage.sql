-- What replies of models and calls of tools took.

CREATE TABLE usage (
  row INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  at REAL NOT NULL,
  day TEXT NOT NULL, -- 2026-11-23, where it ran
  model TEXT NOT NULL,
  provider TEXT NOT NULL,
  tool TEXT NOT NULL, -- empty for a reply
  input INTEGER NOT NULL,
  output INTEGER NOT NULL,
  cached INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  cost REAL, -- NULL where there was no price
  seconds REAL NOT NULL,
  failed INTEGER NOT NULL
);
CREATE INDEX usage_by_session ON usage (session_id);
CREATE INDEX usage_by_time ON usage (at);
