-- Old contents of files, by the SHA-256 of each. ``at`` is when it was last replaced, in Unix seconds.

CREATE TABLE contents (
  digest TEXT PRIMARY KEY,
  at REAL NOT NULL,
  size INTEGER NOT NULL,
  body BLOB NOT NULL
);
CREATE INDEX contents_by_age ON contents (at, size);
