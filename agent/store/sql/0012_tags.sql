ALTER TABLE sessions ADD COLUMN tags TEXT NOT NULL DEFAULT '[]'; -- JSON: a person's words for it
