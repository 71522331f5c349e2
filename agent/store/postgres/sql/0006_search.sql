-- Words of messages for searching. They come when somebody searches, see _search.py.
ALTER TABLE toolcrib.messages ADD COLUMN at float8 NOT NULL DEFAULT 0; -- when it was kept; 0 for those of an older toolcrib
ALTER TABLE toolcrib.messages ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY;
ALTER TABLE toolcrib.messages ADD COLUMN words tsvector; -- NULL until they were taken in
CREATE UNIQUE INDEX messages_by_number ON toolcrib.messages (number);
CREATE INDEX messages_by_words ON toolcrib.messages USING gin (words);
CREATE INDEX messages_without_words ON toolcrib.messages (number) WHERE words IS NULL;
