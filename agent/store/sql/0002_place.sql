ALTER TABLE sessions ADD COLUMN place TEXT NOT NULL DEFAULT '{}'; -- JSON: where it runs
