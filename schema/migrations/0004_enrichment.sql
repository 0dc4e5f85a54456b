-- What enrichment stores besides the job row: one row per agent call, work in progress, who asked for related laws.

-- Whatever its end, a call of an agent costs money, so each has a row (D54). Rows outlive their job. Counts are NULL when
-- the call reported nothing; usage_complete says whether what it reported covers all of it.
CREATE TABLE IF NOT EXISTS agent_calls (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id              uuid REFERENCES jobs (id) ON DELETE SET NULL,
    attempt             integer NOT NULL,
    seq                 integer NOT NULL,
    law_id              text NOT NULL,
    provider            text NOT NULL,
    model               text,
    step                text NOT NULL,
    slice               integer NOT NULL DEFAULT 0,
    resumed             boolean NOT NULL DEFAULT false,
    started_at          timestamptz NOT NULL,
    ended_at            timestamptz NOT NULL,
    verdict             text NOT NULL,
    input_tokens        bigint,
    output_tokens       bigint,
    cache_read_tokens   bigint,
    cache_write_tokens  bigint,
    usage_complete      boolean NOT NULL DEFAULT false,
    cost_millicents     bigint
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_agent_calls_job ON agent_calls (job_id, attempt, seq);
CREATE INDEX IF NOT EXISTS idx_agent_calls_ended_at ON agent_calls (ended_at);
CREATE INDEX IF NOT EXISTS idx_agent_calls_law ON agent_calls (law_id);

-- partial: models of an attempt that did not end (D43). pending_result: the result of a push whose completion may be
-- missing (D53). Readers of inputs and results name their kind, so they never see these.
DO $$
DECLARE
    old text;
BEGIN
    FOR old IN SELECT c.conname FROM pg_constraint c
               WHERE c.conrelid = 'job_blobs'::regclass AND c.contype = 'c'
                 AND pg_get_constraintdef(c.oid) LIKE '%kind%' AND pg_get_constraintdef(c.oid) NOT LIKE '%pending_result%'
    LOOP
        EXECUTE format('ALTER TABLE job_blobs DROP CONSTRAINT %I', old);
    END LOOP;
    IF NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = 'job_blobs'::regclass AND c.contype = 'c'
                   AND pg_get_constraintdef(c.oid) LIKE '%pending_result%') THEN
        ALTER TABLE job_blobs ADD CONSTRAINT job_blobs_kind_check
            CHECK (kind IN ('input', 'result', 'partial', 'pending_result'));
    END IF;
END $$;

-- Which law's enrichment had which law harvested: the limits of D60 are counted here, and people can see why a law came in.
CREATE TABLE IF NOT EXISTS related_harvests (
    source_law_id   text NOT NULL,
    law_id          text NOT NULL,
    enrich_job_id   uuid REFERENCES jobs (id) ON DELETE SET NULL,
    harvest_job_id  uuid REFERENCES jobs (id) ON DELETE SET NULL,
    created_at      timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS idx_related_harvests_source ON related_harvests (source_law_id);
CREATE INDEX IF NOT EXISTS idx_related_harvests_job ON related_harvests (enrich_job_id);
