-- What sessions refer to of the artifacts beside the store, see _artifacts.py.

CREATE TABLE artifacts (
  row INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL,
  digest TEXT NOT NULL, -- SHA-256 of the content, in hexadecimal
  size INTEGER NOT NULL, -- of the content, in bytes
  at REAL NOT NULL,
  UNIQUE (session_id, digest)
);
