-- Text is written as agent/store/postgres/_text.py says: PostgreSQL takes no NUL and no lone surrogates. Times are Unix seconds.
-- Ids are compared byte by byte (COLLATE "C"), so that an index outlives an upgrade of the system's locales. Columns named *_key
-- are the SHA-256 of text that may be too long for an index.

CREATE TABLE toolcrib.sessions (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  platform text NOT NULL,
  "user" text NOT NULL,
  model text NOT NULL,
  cwd text NOT NULL,
  place text NOT NULL, -- JSON: where it runs
  host text NOT NULL DEFAULT '', -- the lease of the process that wants to continue its parked run
  title text NOT NULL DEFAULT '',
  spoken boolean NOT NULL DEFAULT false, -- a user said something
  messages integer NOT NULL DEFAULT 0,
  created_at float8 NOT NULL,
  updated_at float8 NOT NULL
);
CREATE INDEX sessions_by_use ON toolcrib.sessions (updated_at) WHERE spoken;

CREATE TABLE toolcrib.messages (
  session bigint NOT NULL REFERENCES toolcrib.sessions (row) ON DELETE CASCADE,
  seq integer NOT NULL, -- 0, 1, 2 ... within its session
  body text NOT NULL, -- JSON
  PRIMARY KEY (session, seq)
);

-- A row per call. Providers repeat call ids: the newest row of an id is meant.
CREATE TABLE toolcrib.calls (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_id text COLLATE "C" NOT NULL,
  call_id text NOT NULL,
  call_key bytea NOT NULL,
  call text NOT NULL, -- JSON: name, args, fault
  status text NOT NULL
    CHECK (status IN ('new', 'running', 'suspended', 'resuming', 'succeeded', 'failed', 'cancelled')),
  handler_started boolean NOT NULL DEFAULT false,
  result text, -- JSON
  token bigint NOT NULL DEFAULT 0, -- of the lease that it was opened or last moved under; 0 for none
  opened_at float8 NOT NULL,
  ended_at float8
);
CREATE INDEX calls_by_id ON toolcrib.calls (session_id, call_key, row);
CREATE UNIQUE INDEX calls_under_way ON toolcrib.calls (session_id, call_key)
  WHERE status IN ('new', 'running', 'suspended', 'resuming');

CREATE TABLE toolcrib.tickets (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  session_id text COLLATE "C" NOT NULL,
  call_key bytea,
  call_row bigint REFERENCES toolcrib.calls (row) ON DELETE CASCADE,
  state text NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired')),
  ticket text NOT NULL, -- JSON
  answer text, -- JSON
  decision_key bytea UNIQUE,
  at float8 NOT NULL,
  expires_at float8,
  remind_at float8
);
CREATE INDEX tickets_by_call ON toolcrib.tickets (session_id, call_key);
CREATE INDEX tickets_by_call_row ON toolcrib.tickets (call_row);
CREATE INDEX tickets_pending ON toolcrib.tickets (session_id) WHERE state = 'pending';
CREATE INDEX tickets_due ON toolcrib.tickets (remind_at) WHERE state = 'pending' AND remind_at IS NOT NULL;

CREATE TABLE toolcrib.grants (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  session_id text COLLATE "C" NOT NULL,
  principal text COLLATE "C" NOT NULL,
  scope text NOT NULL,
  uses_left bigint,
  body text NOT NULL -- JSON: the rest
);
CREATE INDEX grants_by_session ON toolcrib.grants (session_id);
CREATE INDEX grants_lasting ON toolcrib.grants (principal) WHERE scope = 'always';

CREATE TABLE toolcrib.audit (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at float8 NOT NULL,
  session_id text COLLATE "C" NOT NULL,
  call_id text NOT NULL,
  tool text NOT NULL,
  decision text NOT NULL,
  by text NOT NULL,
  detail text NOT NULL -- JSON
);
CREATE INDEX audit_by_session ON toolcrib.audit (session_id, row);

-- What tools changed in files, written down before they did it. The old contents lie elsewhere, by their digests.
CREATE TABLE toolcrib.steps (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_id text COLLATE "C" NOT NULL,
  kind text NOT NULL CHECK (kind IN ('call', 'undo', 'redo')),
  turn bigint NOT NULL,
  call_id text NOT NULL,
  tool text NOT NULL,
  at float8 NOT NULL,
  changes text NOT NULL, -- JSON
  told boolean NOT NULL DEFAULT false -- the session's model has heard of this undo
);
CREATE INDEX steps_by_session ON toolcrib.steps (session_id, row);

-- A lease is never deleted: its token would begin again, and an old holder's writes would count.
CREATE TABLE toolcrib.leases (
  name text COLLATE "C" PRIMARY KEY,
  owner text NOT NULL,
  token bigint NOT NULL,
  expires_at float8 NOT NULL
);

CREATE TABLE toolcrib.runs (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  session_id text COLLATE "C" NOT NULL,
  status text NOT NULL CHECK (status IN ('running', 'parked', 'ended')),
  step bigint NOT NULL,
  state text NOT NULL, -- JSON
  updated_at float8 NOT NULL
);
CREATE INDEX runs_by_session ON toolcrib.runs (session_id) WHERE status <> 'ended';
CREATE INDEX runs_of_session ON toolcrib.runs (session_id);
CREATE INDEX runs_parked ON toolcrib.runs (updated_at) WHERE status = 'parked';

CREATE TABLE toolcrib.inbox (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_id text COLLATE "C" NOT NULL,
  key text NOT NULL, -- the sender's own; it stays known
  sender_key bytea, -- NULL where the sender gave none
  item text NOT NULL, -- JSON
  at float8 NOT NULL,
  taken boolean NOT NULL DEFAULT false -- then it stays for its key, without the item
);
CREATE UNIQUE INDEX inbox_by_key ON toolcrib.inbox (session_id, sender_key) WHERE sender_key IS NOT NULL;
CREATE INDEX inbox_waiting ON toolcrib.inbox (session_id, row) WHERE NOT taken;

CREATE TABLE toolcrib.origins (
  session_id text COLLATE "C" NOT NULL,
  path_key bytea NOT NULL,
  path text NOT NULL,
  bits bigint NOT NULL,
  PRIMARY KEY (session_id, path_key)
);

-- Refuse the transaction of a holder whose lease another has taken, and keep others from taking it until the transaction ends.
-- FOR SHARE: without it a lease that is taken between a write and its COMMIT lets the write through.
CREATE FUNCTION toolcrib.hold_lease(lease_name text, lease_token bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM toolcrib.leases WHERE name = lease_name AND token = lease_token FOR SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the lease is lost' USING ERRCODE = 'TCLST';
  END IF;
END
$$;
