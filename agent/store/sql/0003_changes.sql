-- What tools changed in files, written down before they did it. The old contents lie elsewhere, by their digests.

CREATE TABLE steps (
  row INTEGER PRIMARY KEY, -- rows stay, so that a number which others name never means another step
  session_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('call', 'undo', 'redo')),
  turn INTEGER NOT NULL,
  call_id TEXT NOT NULL,
  tool TEXT NOT NULL,
  at REAL NOT NULL,
  changes TEXT NOT NULL, -- JSON: [number, path, place, before, after, lost, folders, undone_by, passed_by] of each
  told INTEGER NOT NULL DEFAULT 0 -- the session's model has heard of this undo
);
CREATE INDEX steps_by_session ON steps (session_id);
CREATE INDEX steps_untold ON steps (session_id) WHERE kind <> 'call' AND NOT told;
