ALTER TABLE sessions ADD COLUMN via TEXT NOT NULL DEFAULT '{}'; -- JSON: provider, model and server that are asked
