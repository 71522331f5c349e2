ALTER TABLE toolcrib.sessions ADD COLUMN prompt text NOT NULL DEFAULT '{}'; -- JSON: the part of the system prompt that stays
