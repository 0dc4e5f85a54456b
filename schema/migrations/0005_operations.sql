-- A pause may have an end: from then on it counts no more, without anybody resuming it.
ALTER TABLE pauses ADD COLUMN IF NOT EXISTS until timestamptz;
