-- Large results by the SHA-256 of each, in hexadecimal, and which session refers to which.

CREATE TABLE toolcrib.artifact_contents (
  digest text PRIMARY KEY,
  size bigint NOT NULL, -- in bytes, before it was packed
  body bytea NOT NULL
);
ALTER TABLE toolcrib.artifact_contents ALTER COLUMN body SET STORAGE EXTERNAL; -- it is packed already

CREATE TABLE toolcrib.artifacts (
  row bigint GENERATED ALWAYS AS IDENTITY,
  session_id text COLLATE "C" NOT NULL,
  digest text NOT NULL,
  size bigint NOT NULL,
  at float8 NOT NULL,
  PRIMARY KEY (session_id, digest)
);
CREATE INDEX artifacts_by_digest ON toolcrib.artifacts (digest);
