-- What a gateway keeps of chats. In indexes chats and keys stand before platforms, since a repair tells rows by their shapes:
-- what has a path in the second place is taken for the origin of a file.

CREATE TABLE mail (
  row INTEGER PRIMARY KEY AUTOINCREMENT, -- a number never means another message
  at REAL NOT NULL,
  platform TEXT NOT NULL,
  chat TEXT NOT NULL,
  key TEXT NOT NULL, -- the platform's own id; it stays known
  body TEXT NOT NULL, -- JSON; empty once it was worked on
  done_at REAL, -- NULL: it waits
  UNIQUE (chat, key, platform)
);
CREATE INDEX mail_waiting ON mail (platform) WHERE done_at IS NULL;
CREATE INDEX mail_waiting_by_chat ON mail (chat, platform) WHERE done_at IS NULL;
CREATE INDEX mail_done ON mail (done_at) WHERE done_at IS NOT NULL;

CREATE TABLE posts (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  at REAL NOT NULL,
  moved_at REAL NOT NULL, -- when it became what it is
  platform TEXT NOT NULL,
  chat TEXT NOT NULL,
  key TEXT NOT NULL, -- ours
  session_id TEXT NOT NULL,
  body TEXT NOT NULL, -- JSON with sorted keys: one that is the same has the same text
  state TEXT NOT NULL CHECK (state IN ('waiting', 'sending', 'shown', 'failed')),
  shown_as TEXT NOT NULL, -- the platform's own id
  tries INTEGER NOT NULL,
  due_at REAL NOT NULL,
  problem TEXT NOT NULL,
  UNIQUE (key, platform)
);
CREATE INDEX posts_pending ON posts (platform) WHERE state IN ('waiting', 'sending');
CREATE INDEX posts_shown ON posts (chat, shown_as, platform) WHERE shown_as <> '';
CREATE INDEX posts_over ON posts (moved_at) WHERE state IN ('shown', 'failed');
CREATE INDEX posts_by_session ON posts (session_id);

CREATE TABLE chats (
  row INTEGER PRIMARY KEY,
  created_at REAL NOT NULL,
  used_at REAL NOT NULL,
  platform TEXT NOT NULL,
  chat TEXT NOT NULL,
  session_id TEXT NOT NULL, -- the one that it has now
  body TEXT NOT NULL, -- JSON
  UNIQUE (chat, platform)
);

-- Chats by the sessions that they have or had.
CREATE TABLE chat_sessions (
  row INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL UNIQUE,
  platform TEXT NOT NULL,
  chat TEXT NOT NULL
);

CREATE INDEX runs_ended ON runs (updated_at) WHERE status = 'ended';
