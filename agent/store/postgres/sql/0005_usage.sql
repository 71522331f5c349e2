-- What replies of models and calls of tools took.

CREATE TABLE toolcrib.usage (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_id text COLLATE "C" NOT NULL,
  at float8 NOT NULL,
  day text NOT NULL, -- 2026-11-23, where it ran
  model text NOT NULL,
  provider text NOT NULL,
  tool text NOT NULL, -- empty for a reply
  input bigint NOT NULL,
  output bigint NOT NULL,
  cached bigint NOT NULL,
  reasoning bigint NOT NULL,
  cost float8, -- NULL where there was no price
  seconds float8 NOT NULL,
  failed boolean NOT NULL
);
CREATE INDEX usage_by_session ON toolcrib.usage (session_id);
CREATE INDEX usage_by_time ON toolcrib.usage (at);
