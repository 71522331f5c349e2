-- What tools changed in files, written down before they did it. The old contents lie elsewhere, by their digests.

CREATE TABLE steps (
  row INTEGER PRIMARY KEY AUTOINCREMENT, -- a number that changes name must never mean another step
  session_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('call', 'undo', 'redo')),
  turn INTEGER NOT NULL,
  call_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  at REAL NOT NULL,
  told INTEGER NOT NULL DEFAULT 0 -- the session's model has heard of this undo
);
CREATE INDEX steps_by_session ON steps (session_id);
CREATE INDEX steps_untold ON steps (session_id) WHERE kind <> 'call' AND NOT told;

CREATE TABLE changes (
  row INTEGER PRIMARY KEY,
  step INTEGER NOT NULL REFERENCES steps (row) ON DELETE CASCADE,
  path TEXT NOT NULL,
  place TEXT NOT NULL,
  before TEXT, -- JSON: digest, size, mode; NULL: no such file
  after TEXT,
  lost TEXT NOT NULL,
  folders TEXT NOT NULL, -- JSON
  undone_by INTEGER NOT NULL DEFAULT 0,
  passed_by INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX changes_by_step ON changes (step);
