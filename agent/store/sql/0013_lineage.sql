-- Which session it comes from, and why: fork, delegate or import. Until now both stood in ``place``.
ALTER TABLE sessions ADD COLUMN parent_id TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN why TEXT NOT NULL DEFAULT '';
UPDATE sessions SET
    parent_id = coalesce(json_extract(place, '$.parent'), ''),
    why = coalesce(json_extract(place, '$.why'), CASE WHEN json_extract(place, '$.imported') IS NULL THEN '' ELSE 'import' END),
    place = json_remove(place, '$.parent', '$.why')
  WHERE CASE WHEN json_valid(place) THEN coalesce(json_extract(place, '$.parent'), json_extract(place, '$.imported')) END NOT NULL;
CREATE INDEX sessions_by_parent ON sessions (parent_id) WHERE parent_id <> '';

-- From here on calls and their results may be packed too: see _packing.py.
