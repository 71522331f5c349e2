-- From here on the bodies of messages may be packed: see _packing.py.
ALTER TABLE messages ADD COLUMN at REAL NOT NULL DEFAULT 0; -- when it was kept; 0 for those of an older toolcrib
