-- The raw header section of a message, cut and packed; NULL where it is not kept.
ALTER TABLE messages ADD COLUMN header BYTEA;

-- What a change did to each entry or value, packed: what it was before, and what it is since. NULL where the sample says
-- it all.
ALTER TABLE audit ADD COLUMN changes BYTEA;
