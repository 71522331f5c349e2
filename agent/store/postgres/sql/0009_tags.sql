ALTER TABLE toolcrib.sessions ADD COLUMN tags text NOT NULL DEFAULT '[]'; -- JSON: a person's words for it
