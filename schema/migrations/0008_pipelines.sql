-- Pipelines: who may use them, what they read and fill, their runs, and what runs cost. Money is whole micros (1000000 = $1).
-- Nothing here mentions the job types of pipelines: their labels join the enum only when a role first needs them (D23), and
-- a run's job names "pipeline:{id}" where other jobs name a law (D73).

DO $$ BEGIN
    CREATE TYPE document_state AS ENUM ('pending', 'processing', 'ready', 'failed');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN
    CREATE TYPE pipeline_run_status AS ENUM ('pending', 'running', 'succeeded', 'failed', 'cancelled');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN
    CREATE TYPE pipeline_run_trigger AS ENUM ('manual', 'scheduled', 'upload');
EXCEPTION WHEN duplicate_object THEN NULL; END $$;

-- Workspaces and money --------------------------------------------------------------------------------------------------

-- A balance may be below zero: other products take from it too. Holds never are.
CREATE TABLE IF NOT EXISTS credit_wallets (
    owner_id         uuid PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    balance_micros   bigint NOT NULL DEFAULT 0,
    reserved_micros  bigint NOT NULL DEFAULT 0 CHECK (reserved_micros >= 0),
    updated_at       timestamptz NOT NULL DEFAULT now()
);

-- Every change of a balance that is no charge, with who made it and why: balance = entries - charges (token_usage).
CREATE TABLE IF NOT EXISTS credit_entries (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner_id       uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    amount_micros  bigint NOT NULL CHECK (amount_micros <> 0),
    reason         text NOT NULL DEFAULT '',
    entered_by     text NOT NULL DEFAULT '',
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS ix_credit_entries_owner ON credit_entries (owner_id, id);

CREATE TABLE IF NOT EXISTS workspaces (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        varchar(100) NOT NULL CHECK (btrim(name) <> ''),
    owner_id    uuid NOT NULL REFERENCES accounts (id) ON DELETE RESTRICT,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS ix_workspaces_owner ON workspaces (owner_id);

CREATE TABLE IF NOT EXISTS workspace_members (
    workspace_id  bigint NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    account_id    uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    permissions   text[] NOT NULL DEFAULT '{connectors:read}',
    PRIMARY KEY (workspace_id, account_id)
);
CREATE INDEX IF NOT EXISTS ix_workspace_members_account ON workspace_members (account_id);

-- Sources and documents -------------------------------------------------------------------------------------------------

-- periodic_suppressed: a pipeline owns the schedule; periodic_saved {"enabled", "frequency"} is what the user had set.
CREATE TABLE IF NOT EXISTS connectors (
    id                          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id                bigint NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    owner_id                    uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    name                        varchar(100) NOT NULL CHECK (btrim(name) <> ''),
    connector_type              text NOT NULL CHECK (connector_type ~ '^[A-Z][A-Z0-9_]{1,62}$'),
    config                      jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(config) = 'object'),
    is_indexable                boolean NOT NULL DEFAULT false,
    periodic_indexing_enabled   boolean NOT NULL DEFAULT false,
    indexing_frequency_minutes  integer CHECK (indexing_frequency_minutes BETWEEN 5 AND 525600),
    next_scheduled_at           timestamptz,
    periodic_suppressed         boolean NOT NULL DEFAULT false,
    periodic_saved              jsonb,
    last_indexed_at             timestamptz,
    created_at                  timestamptz NOT NULL DEFAULT now(),
    updated_at                  timestamptz NOT NULL DEFAULT now(),
    UNIQUE (workspace_id, owner_id, connector_type, name),
    CHECK (NOT (periodic_indexing_enabled AND periodic_suppressed)),
    CHECK (periodic_suppressed = (periodic_saved IS NOT NULL)),
    CHECK (NOT periodic_indexing_enabled OR (is_indexable AND indexing_frequency_minutes IS NOT NULL))
);
CREATE INDEX IF NOT EXISTS ix_connectors_due ON connectors (next_scheduled_at)
    WHERE periodic_indexing_enabled AND next_scheduled_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS ix_connectors_owner ON connectors (owner_id);

CREATE TABLE IF NOT EXISTS folders (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id   bigint NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    parent_id      bigint REFERENCES folders (id) ON DELETE CASCADE CHECK (parent_id IS DISTINCT FROM id),
    name           varchar(255) NOT NULL,
    position       varchar(50) NOT NULL DEFAULT 'a0',
    created_by_id  uuid REFERENCES accounts (id) ON DELETE SET NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS ix_folders_workspace ON folders (workspace_id);
CREATE INDEX IF NOT EXISTS ix_folders_parent ON folders (parent_id);

-- folder_id NULL is the root of the workspace. claimed_by "job:attempt" is the claim that works on the row just now.
-- last_run_id has no foreign key on purpose: where a document came from outlives the run.
CREATE TABLE IF NOT EXISTS documents (
    id                      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id            bigint NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    folder_id               bigint REFERENCES folders (id) ON DELETE SET NULL,
    connector_id            bigint REFERENCES connectors (id) ON DELETE SET NULL,
    created_by_id           uuid REFERENCES accounts (id) ON DELETE SET NULL,
    document_type           text NOT NULL DEFAULT 'CRAWLED_URL',
    title                   text NOT NULL,
    url                     text,
    content                 text NOT NULL DEFAULT '',
    content_hash            char(64) NOT NULL,
    unique_identifier_hash  char(64) NOT NULL,
    metadata                jsonb NOT NULL DEFAULT '{}',
    state                   document_state NOT NULL DEFAULT 'pending',
    state_reason            text,
    claimed_by              text,
    last_run_id             bigint,
    created_at              timestamptz NOT NULL DEFAULT now(),
    updated_at              timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX IF NOT EXISTS ux_documents_identity ON documents (workspace_id, unique_identifier_hash);
CREATE INDEX IF NOT EXISTS ix_documents_content ON documents (workspace_id, content_hash);
CREATE INDEX IF NOT EXISTS ix_documents_folder ON documents (folder_id);
CREATE INDEX IF NOT EXISTS ix_documents_connector ON documents (connector_id);
CREATE INDEX IF NOT EXISTS ix_documents_claimed ON documents (claimed_by text_pattern_ops) WHERE claimed_by IS NOT NULL;

-- Pipelines and their runs ----------------------------------------------------------------------------------------------

-- connector_id NULL: filled by uploads, not executed. schedule_cron NULL: manual only. schedule_error: why it was switched off.
CREATE TABLE IF NOT EXISTS pipelines (
    id                     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    workspace_id           bigint NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    connector_id           bigint REFERENCES connectors (id) ON DELETE CASCADE,
    destination_folder_id  bigint REFERENCES folders (id) ON DELETE SET NULL,
    created_by_id          uuid REFERENCES accounts (id) ON DELETE SET NULL,
    name                   varchar(200) NOT NULL CHECK (btrim(name) <> ''),
    config                 jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(config) = 'object'),
    save_to_kb             boolean NOT NULL DEFAULT false,
    schedule_cron          varchar(120),
    schedule_timezone      varchar(64) NOT NULL DEFAULT 'UTC',
    enabled                boolean NOT NULL DEFAULT true,
    next_scheduled_at      timestamptz,
    last_fired_at          timestamptz,
    schedule_error         text,
    created_at             timestamptz NOT NULL DEFAULT now(),
    updated_at             timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS ix_pipelines_due ON pipelines (next_scheduled_at)
    WHERE enabled AND next_scheduled_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS ix_pipelines_heal ON pipelines (id)
    WHERE enabled AND schedule_cron IS NOT NULL AND connector_id IS NOT NULL AND next_scheduled_at IS NULL;
CREATE INDEX IF NOT EXISTS ix_pipelines_workspace ON pipelines (workspace_id, id);
CREATE INDEX IF NOT EXISTS ix_pipelines_connector ON pipelines (connector_id);
CREATE INDEX IF NOT EXISTS ix_pipelines_folder ON pipelines (destination_folder_id);
CREATE INDEX IF NOT EXISTS ix_pipelines_creator ON pipelines (created_by_id);

-- claim_seq is the job's attempt that runs it (orders and names; what fences is the job's lease, D64). preflight_at: list,
-- price and billing flag were taken, once. unit_price_micros NULL: billing was off then. charged_micros NULL: never charged.
CREATE TABLE IF NOT EXISTS pipeline_runs (
    id                   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline_id          bigint NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    job_id               uuid UNIQUE REFERENCES jobs (id) ON DELETE SET NULL,
    claim_seq            bigint NOT NULL DEFAULT 0,
    status               pipeline_run_status NOT NULL DEFAULT 'pending',
    trigger              pipeline_run_trigger NOT NULL,
    triggered_by_id      uuid REFERENCES accounts (id) ON DELETE SET NULL,
    scheduled_for        timestamptz,
    documents_indexed    integer,
    crawls_attempted     integer,
    crawls_succeeded     integer,
    summary              jsonb,
    error                jsonb,
    result_blob_key      text,
    result_blob_backend  text,
    result_bytes         bigint,
    result_expires_at    timestamptz,
    preflight_at         timestamptz,
    unit_price_micros    bigint CHECK (unit_price_micros >= 0),
    reserved_micros      bigint NOT NULL DEFAULT 0 CHECK (reserved_micros >= 0),
    reserved_owner_id    uuid,
    charged_micros       bigint CHECK (charged_micros >= 0),
    cancel_requested_at  timestamptz,
    created_at           timestamptz NOT NULL DEFAULT now(),
    started_at           timestamptz,
    finished_at          timestamptz,
    CHECK ((status IN ('succeeded', 'failed', 'cancelled')) = (finished_at IS NOT NULL)),
    CHECK (status <> 'failed' OR error IS NOT NULL),
    CHECK (crawls_succeeded <= crawls_attempted),
    CHECK (status IN ('pending', 'running') OR reserved_micros = 0)
);
CREATE INDEX IF NOT EXISTS ix_runs_pipeline_created ON pipeline_runs (pipeline_id, created_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS ix_runs_active ON pipeline_runs (pipeline_id) WHERE status IN ('pending', 'running');
CREATE UNIQUE INDEX IF NOT EXISTS ux_runs_fire ON pipeline_runs (pipeline_id, scheduled_for)
    WHERE scheduled_for IS NOT NULL;
CREATE INDEX IF NOT EXISTS ix_runs_blob_expiry ON pipeline_runs (result_expires_at) WHERE result_blob_key IS NOT NULL;

-- The frozen list of a run, what came of each target, and where a run that is taken up again goes on.
CREATE TABLE IF NOT EXISTS pipeline_run_items (
    run_id       bigint NOT NULL REFERENCES pipeline_runs (id) ON DELETE CASCADE,
    ordinal      integer NOT NULL,
    target       text NOT NULL,
    claim_seq    bigint NOT NULL DEFAULT 0,
    outcome      text CHECK (outcome IN ('success', 'empty', 'failed', 'skipped')),
    doc_action   text CHECK (doc_action IN ('created', 'updated', 'unchanged', 'duplicate', 'none')),
    document_id  bigint REFERENCES documents (id) ON DELETE SET NULL,
    job_id       uuid REFERENCES jobs (id) ON DELETE SET NULL,
    tier         text,
    http_status  integer,
    bytes        bigint,
    duration_ms  integer,
    error        text,
    finished_at  timestamptz,
    PRIMARY KEY (run_id, ordinal),
    UNIQUE (run_id, target),
    CHECK ((outcome IS NULL) = (finished_at IS NULL))
);
CREATE INDEX IF NOT EXISTS ix_run_items_document ON pipeline_run_items (document_id);
CREATE INDEX IF NOT EXISTS ix_run_items_job ON pipeline_run_items (job_id);

-- Who works on a pipeline or a connector. The holder is one claim of one job, whose every beat adds ttl anew.
CREATE TABLE IF NOT EXISTS leases (
    kind         text NOT NULL CHECK (kind IN ('pipeline', 'connector')),
    resource_id  bigint NOT NULL,
    holder       text NOT NULL,
    acquired_at  timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    ttl          interval NOT NULL,
    PRIMARY KEY (kind, resource_id)
);
CREATE INDEX IF NOT EXISTS ix_leases_holder ON leases (holder text_pattern_ops);

-- What was charged: rows are only added. pipeline_run_id has no foreign key: the audit outlives the run.
CREATE TABLE IF NOT EXISTS token_usage (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    usage_type         varchar(50) NOT NULL,
    workspace_id       bigint NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    user_id            uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    prompt_tokens      integer NOT NULL DEFAULT 0,
    completion_tokens  integer NOT NULL DEFAULT 0,
    total_tokens       integer NOT NULL DEFAULT 0,
    cost_micros        bigint NOT NULL DEFAULT 0 CHECK (cost_micros >= 0),
    call_details       jsonb,
    message_id         bigint,
    pipeline_run_id    bigint,
    created_at         timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX IF NOT EXISTS ux_token_usage_run ON token_usage (pipeline_run_id, usage_type)
    WHERE pipeline_run_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS ix_token_usage_ws ON token_usage (workspace_id, created_at DESC);
CREATE INDEX IF NOT EXISTS ix_token_usage_user ON token_usage (user_id);

-- Stored objects that nobody points at, or will not unless their claim lives to publish them (D65).
CREATE TABLE IF NOT EXISTS blob_tombstones (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    backend     text NOT NULL,
    key         text NOT NULL,
    job_id      uuid,
    claim_seq   bigint,
    attempts    integer NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS ix_blob_tombstones_key ON blob_tombstones (backend, key);

-- Whatever deletes a run (its pipeline, connector or workspace may), its blob and its hold do not stay behind.
CREATE OR REPLACE FUNCTION pipeline_run_gone() RETURNS trigger LANGUAGE plpgsql AS $body$
BEGIN
    IF OLD.result_blob_key IS NOT NULL THEN
        INSERT INTO blob_tombstones (backend, key)
        VALUES (COALESCE(OLD.result_blob_backend, 'local'), OLD.result_blob_key);
    END IF;
    IF OLD.reserved_micros > 0 THEN
        UPDATE credit_wallets SET reserved_micros = GREATEST(0, reserved_micros - OLD.reserved_micros), updated_at = now()
        WHERE owner_id = OLD.reserved_owner_id;
    END IF;
    RETURN OLD;
END $body$;
DROP TRIGGER IF EXISTS trg_pipeline_run_gone ON pipeline_runs;
CREATE TRIGGER trg_pipeline_run_gone BEFORE DELETE ON pipeline_runs FOR EACH ROW EXECUTE FUNCTION pipeline_run_gone();
