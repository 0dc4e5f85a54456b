-- Who may speak to the HTTP interface (D70). A token is shown once; what is kept is the SHA-256 of its secret, which is 256
-- random bits, so that no slow hash is needed. A token never allows more than its account may do in the workspace just then.
CREATE TABLE IF NOT EXISTS api_tokens (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name          varchar(100) NOT NULL CHECK (btrim(name) <> ''),
    secret_hash   char(64) NOT NULL,
    account_id    uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    workspace_id  bigint NOT NULL REFERENCES workspaces (id) ON DELETE CASCADE,
    permissions   text[] NOT NULL,
    created_by    text NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT now(),
    expires_at    timestamptz,
    revoked_at    timestamptz,
    last_used_at  timestamptz
);
CREATE INDEX IF NOT EXISTS ix_api_tokens_account ON api_tokens (account_id);
CREATE INDEX IF NOT EXISTS ix_api_tokens_workspace ON api_tokens (workspace_id);

-- What an Idempotency-Key led to, so that a request that is sent again makes no second run. Kept for a day.
CREATE TABLE IF NOT EXISTS api_idempotency_keys (
    account_id   uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    key          varchar(255) NOT NULL,
    pipeline_id  bigint NOT NULL REFERENCES pipelines (id) ON DELETE CASCADE,
    run_id       bigint REFERENCES pipeline_runs (id) ON DELETE CASCADE,
    created_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (account_id, key)
);
CREATE INDEX IF NOT EXISTS ix_api_idempotency_pipeline ON api_idempotency_keys (pipeline_id);
CREATE INDEX IF NOT EXISTS ix_api_idempotency_run ON api_idempotency_keys (run_id);
CREATE INDEX IF NOT EXISTS ix_api_idempotency_created ON api_idempotency_keys (created_at);
