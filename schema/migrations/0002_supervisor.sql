-- What the supervisor adds to the platform: leases, budget stamps, remembered law states, pauses, wake-up. Additive only.

-- The lease of a claim is the token of its claimer; it is NULL unless the row is processing (D1). last_lease tells a
-- holder after an unclear commit whether its own last write landed (D7). claimed_by is for people and decides nothing.
-- releases counts hand-backs, which cost no attempt (D12). run_starts and run_provider are the budget's memory (D11).
ALTER TABLE jobs
    ADD COLUMN IF NOT EXISTS lease uuid,
    ADD COLUMN IF NOT EXISTS last_lease uuid,
    ADD COLUMN IF NOT EXISTS claimed_by text,
    ADD COLUMN IF NOT EXISTS releases integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS run_starts timestamptz[] NOT NULL DEFAULT '{}',
    ADD COLUMN IF NOT EXISTS run_provider text,
    ADD COLUMN IF NOT EXISTS cancel_requested_at timestamptz;

-- The hot table: room in each page so that beats and progress stay in it, and vacuum before a claim has to walk far (CL-01).
ALTER TABLE jobs SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_analyze_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);

ALTER TABLE law_entries
    ADD COLUMN IF NOT EXISTS settled_status law_status,
    ADD COLUMN IF NOT EXISTS enrich_exhausted_at timestamptz;

-- A writer that knows no leases (an existing worker, its reaper, a person in psql) must not keep an old one alive: the late
-- report of the holder would pass the fence (D1). The condition stands in the trigger so that a beat never runs the function.
CREATE OR REPLACE FUNCTION supervisor_drop_lease() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    NEW.lease := NULL;
    RETURN NEW;
END $body$;
DROP TRIGGER IF EXISTS trg_jobs_drop_lease ON jobs;
CREATE TRIGGER trg_jobs_drop_lease BEFORE UPDATE ON jobs FOR EACH ROW
    WHEN (NEW.lease IS NOT NULL
          AND (NEW.status <> 'processing' OR (NEW.attempts <> OLD.attempts AND NEW.lease = OLD.lease)))
    EXECUTE FUNCTION supervisor_drop_lease();

-- The last settled state of a law is remembered while work on it is under way, and so is its exhaustion (D14), whoever
-- writes the status.
CREATE OR REPLACE FUNCTION supervisor_remember_law_status() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF OLD.status NOT IN ('unknown', 'queued', 'harvesting', 'enriching') THEN
        NEW.settled_status := OLD.status;
    END IF;
    IF NEW.status = 'enrich_exhausted' THEN
        NEW.enrich_exhausted_at := COALESCE(NEW.enrich_exhausted_at, now());
    ELSIF NEW.status = 'enriched' OR (OLD.status = 'enrich_exhausted' AND NEW.status = 'enrich_failed') THEN
        NEW.enrich_exhausted_at := NULL;
    END IF;
    RETURN NEW;
END $body$;
DROP TRIGGER IF EXISTS trg_law_entries_remember_status ON law_entries;
CREATE TRIGGER trg_law_entries_remember_status BEFORE UPDATE ON law_entries FOR EACH ROW
    WHEN (NEW.status <> OLD.status)
    EXECUTE FUNCTION supervisor_remember_law_status();
UPDATE law_entries SET enrich_exhausted_at = updated_at
    WHERE status = 'enrich_exhausted' AND enrich_exhausted_at IS NULL;

-- Wake-up: a claimer sleeps until it is told (D10). One notification a statement; equal ones in a transaction are one.
CREATE OR REPLACE FUNCTION supervisor_wake() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF EXISTS (SELECT FROM added
               WHERE status = 'pending' AND (scheduled_at IS NULL OR scheduled_at <= now())) THEN
        PERFORM pg_notify('regelrecht_jobs', '');
    END IF;
    RETURN NULL;
END $body$;
DROP TRIGGER IF EXISTS trg_jobs_wake ON jobs;
CREATE TRIGGER trg_jobs_wake AFTER INSERT ON jobs
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT
    EXECUTE FUNCTION supervisor_wake();

-- What was last harvested into which file (D15): the source text and the bytes made of it.
CREATE TABLE IF NOT EXISTS harvest_versions (
    law_id          text NOT NULL,
    file_path       text NOT NULL,
    source_sha256   text NOT NULL,
    content_sha256  text NOT NULL,
    job_id          uuid REFERENCES jobs (id) ON DELETE SET NULL,
    harvested_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (law_id, file_path)
);

-- Set by people: nothing of this job type, or with this provider, is claimed by anyone until it is resumed.
CREATE TABLE IF NOT EXISTS pauses (
    scope      text NOT NULL CHECK (scope IN ('job_type', 'provider')),
    name       text NOT NULL,
    reason     text NOT NULL DEFAULT '',
    paused_by  text NOT NULL DEFAULT '',
    paused_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (scope, name)
);

-- Set by supervisors that met trouble with a provider (D52). credential_hash '' benches the provider, else one credential.
CREATE TABLE IF NOT EXISTS provider_pauses (
    provider         text NOT NULL,
    credential_hash  text NOT NULL DEFAULT '',
    until            timestamptz,
    reason           text NOT NULL DEFAULT '',
    paused_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, credential_hash)
);
