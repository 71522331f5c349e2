-- Contents by the SHA-256 of each. Which of them are in use stands in the store: its table ``artifacts``.

CREATE TABLE contents (
  digest TEXT PRIMARY KEY,
  size INTEGER NOT NULL, -- in bytes, before it was packed
  body BLOB NOT NULL -- see _artifacts.py
);
