ALTER TABLE sessions ADD COLUMN prompt TEXT NOT NULL DEFAULT '{}'; -- JSON: the part of the system prompt that stays
