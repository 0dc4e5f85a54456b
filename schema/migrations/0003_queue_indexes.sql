-- no-transaction
-- Built beside running services, so CONCURRENTLY; the runner checks that each index came out valid and builds it again if
-- an interrupted build left it invalid (DB-08). No index may mention heartbeat_at, progress or updated_at (D4).

-- A claim reads one (type, provider) after the other, each in claim order, whatever waits behind other types (D4).
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_jobs_claim
    ON jobs (job_type, (COALESCE(payload->>'provider', '')), priority DESC, created_at, id)
    WHERE status = 'pending' AND scheduled_at IS NULL;

-- Rows that wait for their time are outside the claim index and are promoted from here (D9).
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_jobs_promotion
    ON jobs (job_type, scheduled_at)
    WHERE status = 'pending' AND scheduled_at IS NOT NULL;

-- The hourly count of runs: the newest start of a row is never older than any other of its starts.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_jobs_runs
    ON jobs (started_at)
    WHERE job_type IN ('enrich', 'document_convert', 'law_convert') AND started_at IS NOT NULL;
