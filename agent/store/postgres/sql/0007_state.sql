-- Values under the keys of tools and plugins. ``owner`` is a session's id, a principal's key or a profile's name.

CREATE TABLE toolcrib.state (
  scope text NOT NULL,
  place bytea NOT NULL, -- SHA-256 of owner and name: an index takes no text of any length
  owner text NOT NULL,
  name text NOT NULL,
  value text NOT NULL, -- JSON; null: it was removed
  version bigint NOT NULL, -- counts its writes, from 1
  at double precision NOT NULL,
  PRIMARY KEY (scope, place)
);
CREATE INDEX state_by_owner ON toolcrib.state USING hash (owner);
