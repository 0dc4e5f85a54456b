-- The platform schema: every name, type and label as the editor, the admin and the API services know them.
-- On an adopted database all of this exists and every statement finds that out for itself (D2): nothing here changes or
-- drops what is there. The two columns of the newest platform release come as ADD COLUMN so that --add-anyway can add them.

DO $$ BEGIN
    CREATE TYPE job_type AS ENUM ('harvest', 'enrich', 'document_convert', 'law_convert', 'traject_harvest');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;

DO $$ BEGIN
    CREATE TYPE job_status AS ENUM ('pending', 'processing', 'completed', 'failed');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;

DO $$ BEGIN
    CREATE TYPE law_status AS ENUM (
        'unknown', 'queued', 'harvesting', 'harvested', 'harvest_failed', 'harvest_exhausted',
        'enriching', 'enriched', 'enrich_failed', 'enrich_exhausted', 'not_harvestable');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;

DO $$ BEGIN
    CREATE TYPE task_status AS ENUM ('open', 'approved', 'rejected', 'dismissed');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;

DO $$ BEGIN
    CREATE TYPE traject_status AS ENUM ('bezig', 'afgerond');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;

DO $$ BEGIN
    CREATE TYPE traject_role AS ENUM ('owner', 'contributor');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;

DO $$ BEGIN
    CREATE TYPE corpus_source_type AS ENUM ('local', 'github');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;

DO $$ BEGIN
    IF to_regprocedure('update_updated_at()') IS NULL THEN
        CREATE FUNCTION update_updated_at() RETURNS trigger LANGUAGE plpgsql AS $body$
        BEGIN
            NEW.updated_at = now();
            RETURN NEW;
        END $body$;
    END IF;
END $$;

-- The queue ----------------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS jobs (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_type      job_type NOT NULL,
    law_id        text NOT NULL,
    status        job_status NOT NULL DEFAULT 'pending',
    priority      integer NOT NULL DEFAULT 50 CHECK (priority BETWEEN 0 AND 100),
    payload       jsonb,
    result        jsonb,
    attempts      integer NOT NULL DEFAULT 0,
    max_attempts  integer NOT NULL DEFAULT 3 CHECK (max_attempts >= 1),
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    started_at    timestamptz,
    completed_at  timestamptz,
    progress      jsonb,
    scheduled_at  timestamptz,
    traject_ref   text
);
ALTER TABLE jobs ADD COLUMN IF NOT EXISTS heartbeat_at timestamptz;

CREATE INDEX IF NOT EXISTS idx_jobs_law_id ON jobs (law_id);
-- The enrich jobs of the platform are deduplicated with this very expression as conflict target, so it stays as it is.
CREATE UNIQUE INDEX IF NOT EXISTS idx_unique_active_enrich_job
    ON jobs (law_id, job_type, (payload->>'provider'), COALESCE(traject_ref, ''))
    WHERE job_type = 'enrich' AND status IN ('pending', 'processing');
CREATE UNIQUE INDEX IF NOT EXISTS idx_unique_active_harvest_job
    ON jobs (law_id, job_type)
    WHERE job_type = 'harvest' AND status IN ('pending', 'processing');
CREATE INDEX IF NOT EXISTS idx_jobs_enrich_provider_started_at
    ON jobs ((payload->>'provider'), started_at)
    WHERE job_type = 'enrich' AND started_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_jobs_traject ON jobs (traject_ref) WHERE traject_ref IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_jobs_processing_started_at ON jobs (started_at) WHERE status = 'processing';
CREATE INDEX IF NOT EXISTS idx_jobs_failed_completed_at
    ON jobs (COALESCE(completed_at, created_at) DESC) WHERE status = 'failed';
-- idx_jobs_queue of the platform serves the claim of its own workers only and is not built here: the claim index of 0003
-- takes its place. An adopted database keeps it.

CREATE TABLE IF NOT EXISTS law_entries (
    law_id              text PRIMARY KEY,
    law_name            text,
    status              law_status NOT NULL DEFAULT 'unknown',
    harvest_job_id      uuid REFERENCES jobs (id) ON DELETE SET NULL,
    enrich_job_id       uuid REFERENCES jobs (id) ON DELETE SET NULL,
    coverage_score      double precision CHECK (coverage_score BETWEEN 0 AND 1),
    created_at          timestamptz NOT NULL DEFAULT now(),
    updated_at          timestamptz NOT NULL DEFAULT now(),
    harvest_fail_count  integer NOT NULL DEFAULT 0,
    enrich_fail_count   integer NOT NULL DEFAULT 0,
    slug                text
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_law_entries_slug ON law_entries (slug) WHERE slug IS NOT NULL;

-- People and trajects ------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS accounts (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    person_sub  text NOT NULL UNIQUE,
    email       text NOT NULL UNIQUE,
    name        text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_accounts_email_lower ON accounts (lower(email));

CREATE TABLE IF NOT EXISTS trajects (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name         text NOT NULL,
    description  text NOT NULL DEFAULT '',
    scope        text NOT NULL DEFAULT '',
    status       traject_status NOT NULL DEFAULT 'bezig',
    created_by   uuid NOT NULL REFERENCES accounts (id),
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS trajects_short_id_idx ON trajects (left(id::text, 8));

CREATE TABLE IF NOT EXISTS traject_members (
    traject_id  uuid NOT NULL REFERENCES trajects (id) ON DELETE CASCADE,
    account_id  uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    role        traject_role NOT NULL,
    added_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (traject_id, account_id)
);
CREATE INDEX IF NOT EXISTS idx_traject_members_account ON traject_members (account_id);

CREATE TABLE IF NOT EXISTS traject_invites (
    traject_id  uuid NOT NULL REFERENCES trajects (id) ON DELETE CASCADE,
    email       text NOT NULL,
    role        traject_role NOT NULL,
    invited_by  uuid NOT NULL REFERENCES accounts (id),
    invited_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (traject_id, email)
);
CREATE INDEX IF NOT EXISTS idx_traject_invites_email ON traject_invites (email);

CREATE TABLE IF NOT EXISTS traject_corpus_sources (
    id               uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    traject_id       uuid NOT NULL REFERENCES trajects (id) ON DELETE CASCADE,
    source_id        text NOT NULL,
    name             text NOT NULL,
    source_type      corpus_source_type NOT NULL,
    gh_owner         text,
    gh_repo          text,
    gh_branch        text,
    gh_base_branch   text,
    gh_path          text,
    gh_ref           text,
    local_path       text,
    priority         integer NOT NULL,
    auth_ref         text,
    scopes           jsonb NOT NULL DEFAULT '[]',
    is_writable_own  boolean NOT NULL DEFAULT false,
    created_at       timestamptz NOT NULL DEFAULT now(),
    UNIQUE (traject_id, source_id),
    CONSTRAINT traject_corpus_sources_github CHECK (
        source_type <> 'github' OR (gh_owner IS NOT NULL AND gh_repo IS NOT NULL AND gh_branch IS NOT NULL)),
    CONSTRAINT traject_corpus_sources_local CHECK (source_type <> 'local' OR local_path IS NOT NULL)
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_traject_corpus_sources_writable
    ON traject_corpus_sources (traject_id) WHERE is_writable_own;

CREATE TABLE IF NOT EXISTS user_notes (
    id           uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    account_id   uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    law_id       text NOT NULL,
    motivation   text NOT NULL DEFAULT 'commenting',
    body_value   text NOT NULL,
    body_format  text NOT NULL DEFAULT 'text/markdown',
    selector     jsonb,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS idx_user_notes_account_law ON user_notes (account_id, law_id);

CREATE TABLE IF NOT EXISTS user_settings (
    person_sub  text NOT NULL,
    key         text NOT NULL,
    value       text NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (person_sub, key)
);

CREATE TABLE IF NOT EXISTS user_favorites (
    person_sub  text NOT NULL,
    law_id      text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    traject_id  uuid REFERENCES trajects (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_user_favorites_global
    ON user_favorites (person_sub, law_id) WHERE traject_id IS NULL;
CREATE UNIQUE INDEX IF NOT EXISTS idx_user_favorites_traject
    ON user_favorites (person_sub, traject_id, law_id) WHERE traject_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_user_favorites_traject_id ON user_favorites (traject_id) WHERE traject_id IS NOT NULL;

CREATE TABLE IF NOT EXISTS feature_flags (
    key          text PRIMARY KEY,
    enabled      boolean NOT NULL DEFAULT true,
    description  text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    updated_at   timestamptz NOT NULL DEFAULT now()
);
INSERT INTO feature_flags (key, enabled, description) VALUES
    ('panel.article_text', true, 'Wettekst (linker paneel)'),
    ('panel.scenario_form', true, 'Scenario formulier (midden paneel)'),
    ('panel.yaml_editor', true, 'YAML editor (midden paneel)'),
    ('panel.execution_trace', true, 'Resultaat (rechter paneel)'),
    ('panel.machine_readable', false, 'Machine readable weergave')
ON CONFLICT (key) DO NOTHING;

-- Tasks, blobs, uploads, what enrichment reported ---------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS tasks (
    id                   uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    task_type            text NOT NULL CHECK (task_type IN ('job_review', 'job_failed')),
    status               task_status NOT NULL DEFAULT 'open',
    assignee_account_id  uuid REFERENCES accounts (id) ON DELETE SET NULL,
    traject_id           uuid REFERENCES trajects (id) ON DELETE SET NULL,
    job_id               uuid REFERENCES jobs (id) ON DELETE SET NULL,
    title                text NOT NULL,
    payload              jsonb,
    created_at           timestamptz NOT NULL DEFAULT now(),
    resolved_at          timestamptz,
    resolved_by          uuid REFERENCES accounts (id) ON DELETE SET NULL
);
CREATE INDEX IF NOT EXISTS idx_tasks_open_assignee ON tasks (assignee_account_id) WHERE status = 'open';
CREATE INDEX IF NOT EXISTS idx_tasks_job_open ON tasks (job_id) WHERE status = 'open';

-- No foreign key on job_id, on purpose: blobs outlive a deleted job until the sweep.
CREATE TABLE IF NOT EXISTS job_blobs (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    job_id      uuid NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('input', 'result')),
    path        text NOT NULL,
    content     text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_job_blobs_job_kind_path ON job_blobs (job_id, kind, path);

CREATE TABLE IF NOT EXISTS untranslatables (
    id                  uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    law_id              text NOT NULL,
    enrich_job_id       uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    provider            text NOT NULL,
    article             text NOT NULL,
    construct           text NOT NULL,
    reason              text NOT NULL,
    suggestion          text,
    legal_text_excerpt  text,
    accepted            boolean NOT NULL DEFAULT false,
    created_at          timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS idx_untranslatables_law_id ON untranslatables (law_id);
CREATE INDEX IF NOT EXISTS idx_untranslatables_construct ON untranslatables (construct);
CREATE INDEX IF NOT EXISTS idx_untranslatables_accepted ON untranslatables (accepted);

-- Provisional shape (D62).
CREATE TABLE IF NOT EXISTS markings (
    id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    law_id         text NOT NULL,
    enrich_job_id  uuid NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    provider       text NOT NULL,
    article        text NOT NULL,
    kind           text NOT NULL,
    reason         text NOT NULL,
    excerpt        text,
    accepted       boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS document_uploads (
    id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    traject_ref   text NOT NULL,
    filename      text NOT NULL,
    content_type  text NOT NULL,
    bytes         bytea NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now()
);

-- updated_at ----------------------------------------------------------------------------------------------------------

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['jobs', 'law_entries', 'feature_flags', 'user_settings', 'accounts', 'trajects', 'user_notes']
    LOOP
        IF NOT EXISTS (SELECT FROM pg_trigger
                       WHERE tgrelid = name::regclass AND tgname = 'trg_' || name || '_updated_at') THEN
            EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE ON %I FOR EACH ROW EXECUTE FUNCTION update_updated_at()',
                           'trg_' || name || '_updated_at', name);
        END IF;
    END LOOP;
END $$;
