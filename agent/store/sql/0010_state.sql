-- Values under the keys of tools and plugins.

CREATE TABLE state (
  row INTEGER PRIMARY KEY,
  scope TEXT NOT NULL, -- session, principal or profile
  owner TEXT NOT NULL, -- the session's id, the principal's key, the profile's name
  name TEXT NOT NULL,
  value TEXT NOT NULL, -- JSON; null: it was removed
  version INTEGER NOT NULL, -- counts its writes, from 1
  at REAL NOT NULL,
  UNIQUE (scope, owner, name)
);
