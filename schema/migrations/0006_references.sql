-- no-transaction
-- Deleting a job makes the database look for rows that refer to it, one search a table and job. Without these each search
-- reads the whole table, and a batch of retention takes seconds instead of milliseconds.
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_law_entries_harvest_job ON law_entries (harvest_job_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_law_entries_enrich_job ON law_entries (enrich_job_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_tasks_job ON tasks (job_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_untranslatables_enrich_job ON untranslatables (enrich_job_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_markings_enrich_job ON markings (enrich_job_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_harvest_versions_job ON harvest_versions (job_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS idx_related_harvests_harvest_job ON related_harvests (harvest_job_id);
