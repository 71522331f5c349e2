-- The source of the prices, if a cost is an estimate.

ALTER TABLE toolcrib.usage ADD COLUMN estimated text NOT NULL DEFAULT '';
