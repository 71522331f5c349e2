-- The source of the prices, if a cost is an estimate.

ALTER TABLE usage ADD COLUMN estimated TEXT NOT NULL DEFAULT '';
