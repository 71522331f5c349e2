ALTER TABLE toolcrib.sessions ADD COLUMN via text NOT NULL DEFAULT '{}'; -- JSON: provider, model and server that are asked
