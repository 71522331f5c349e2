ALTER TABLE origins ADD COLUMN copy_of TEXT; -- the path that the file is a copy of
