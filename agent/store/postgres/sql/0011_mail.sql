-- What a gateway keeps of chats. ``place`` is the SHA-256 of what names a row: an index takes no text of any length.

CREATE TABLE toolcrib.mail (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  place bytea NOT NULL UNIQUE, -- of platform, chat and key
  chat_place bytea NOT NULL, -- of platform and chat
  platform text COLLATE "C" NOT NULL,
  chat text NOT NULL,
  key text NOT NULL, -- the platform's own id; it stays known
  body text NOT NULL, -- JSON; empty once it was worked on
  at float8 NOT NULL,
  done_at float8 -- NULL: it waits
);
CREATE INDEX mail_waiting ON toolcrib.mail (platform, row) WHERE done_at IS NULL;
CREATE INDEX mail_waiting_by_chat ON toolcrib.mail (chat_place) WHERE done_at IS NULL;
CREATE INDEX mail_done ON toolcrib.mail (done_at) WHERE done_at IS NOT NULL;

CREATE TABLE toolcrib.posts (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  place bytea NOT NULL UNIQUE, -- of platform and key
  chat_place bytea NOT NULL, -- of platform and chat
  shown_place bytea, -- of chat_place and shown_as; NULL where that is empty
  platform text COLLATE "C" NOT NULL,
  chat text NOT NULL,
  key text COLLATE "C" NOT NULL, -- ours; as ids of runs are, which it is compared with
  session_id text COLLATE "C" NOT NULL,
  body text NOT NULL, -- JSON with sorted keys: one that is the same has the same text
  state text NOT NULL CHECK (state IN ('waiting', 'sending', 'shown', 'failed')),
  shown_as text NOT NULL, -- the platform's own id
  tries bigint NOT NULL,
  due_at float8 NOT NULL,
  problem text NOT NULL,
  at float8 NOT NULL,
  moved_at float8 NOT NULL -- when it became what it is
);
CREATE INDEX posts_pending ON toolcrib.posts (platform, row) WHERE state IN ('waiting', 'sending');
CREATE INDEX posts_shown ON toolcrib.posts (shown_place, row) WHERE shown_place IS NOT NULL;
CREATE INDEX posts_over ON toolcrib.posts (moved_at) WHERE state IN ('shown', 'failed');
CREATE INDEX posts_by_session ON toolcrib.posts (session_id);
-- by what stands between the first two colons: the run's id, or its beginning
CREATE INDEX posts_of_runs ON toolcrib.posts (left(split_part(key, ':', 2), 200)) WHERE starts_with(key, 'run:');
CREATE INDEX posts_of_questions ON toolcrib.posts (platform, row) WHERE starts_with(key, 'ticket:');

CREATE TABLE toolcrib.chats (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  place bytea NOT NULL UNIQUE, -- of platform and chat
  platform text COLLATE "C" NOT NULL,
  chat text NOT NULL,
  session_id text COLLATE "C" NOT NULL, -- the one that it has now
  body text NOT NULL, -- JSON
  created_at float8 NOT NULL,
  used_at float8 NOT NULL
);

-- Chats by the sessions that they have or had.
CREATE TABLE toolcrib.chat_sessions (
  session_id text COLLATE "C" PRIMARY KEY,
  platform text COLLATE "C" NOT NULL,
  place bytea NOT NULL
);

CREATE INDEX runs_ended ON toolcrib.runs (updated_at) WHERE status = 'ended';
