-- The words of messages, by the rows of the store's table. Nothing here is anywhere else lost with it: it is made again.

CREATE VIRTUAL TABLE words USING fts5(said, place, content = '', tokenize = 'ascii');

CREATE TABLE reached (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  row INTEGER NOT NULL, -- all messages up to this one are here
  mark BLOB NOT NULL -- digest of that message's body: a store that was put in the place of another has another
);
INSERT INTO reached VALUES (1, 0, x'');
