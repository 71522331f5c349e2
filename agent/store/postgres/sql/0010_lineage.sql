-- Which session it comes from, and why: fork, delegate or import. Until now both stood in ``place``, whose JSON we write without
-- line feeds and with one blank; not every text in it is one that PostgreSQL's own JSON takes.
ALTER TABLE toolcrib.sessions ADD COLUMN parent_id text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE toolcrib.sessions ADD COLUMN why text NOT NULL DEFAULT '';
UPDATE toolcrib.sessions SET
    parent_id = coalesce(substring(place from '"parent": "([^"\\]*)"'), ''),
    why = coalesce(substring(place from '"why": "([^"\\]*)"'), CASE WHEN place LIKE '%"imported": "%' THEN 'import' ELSE '' END),
    place = regexp_replace(regexp_replace(regexp_replace(place, '"(parent|why)": "[^"\\]*", ', '', 'g'),
      ', "(parent|why)": "[^"\\]*"', '', 'g'), '^\{"(parent|why)": "[^"\\]*"\}$', '{}')
  WHERE place LIKE '%"parent": "%' OR place LIKE '%"imported": "%';
CREATE INDEX sessions_by_parent ON toolcrib.sessions (parent_id) WHERE parent_id <> '';
