-- A provider in trouble is tried again by one job at a time (D52): from probe_at on one claim is let through, whose job is
-- remembered and may use the benched credential; probe_s later, in seconds, the next one. NULL probe_at: never tried.
ALTER TABLE provider_pauses
    ADD COLUMN IF NOT EXISTS probe_at timestamptz,
    ADD COLUMN IF NOT EXISTS probe_s double precision,
    ADD COLUMN IF NOT EXISTS probe_job uuid;
