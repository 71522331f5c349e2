ALTER TABLE toolcrib.origins ADD COLUMN copy_of text; -- the path that the file is a copy of
