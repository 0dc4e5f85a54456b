"""What a database of the existing platform has, by name: the check that adoption makes first (D2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schema.connection import Connection

FOREIGN_BOOKKEEPING: Final = "_sqlx_migrations"
"""The migration table of the existing services. Its presence tells an adopted database; it is never written."""

ENUMS: Final[Mapping[str, tuple[str, ...]]] = {
    "job_type": ("harvest", "enrich", "document_convert", "law_convert", "traject_harvest"),
    "job_status": ("pending", "processing", "completed", "failed"),
    "law_status": (
        "unknown",
        "queued",
        "harvesting",
        "harvested",
        "harvest_failed",
        "harvest_exhausted",
        "enriching",
        "enriched",
        "enrich_failed",
        "enrich_exhausted",
        "not_harvestable",
    ),
    "task_status": ("open", "approved", "rejected", "dismissed"),
    "traject_status": ("bezig", "afgerond"),
    "traject_role": ("owner", "contributor"),
    "corpus_source_type": ("local", "github"),
}

COLUMNS: Final[Mapping[str, str]] = {
    "jobs": "id job_type law_id status priority payload result attempts max_attempts created_at updated_at started_at "
    "completed_at progress scheduled_at traject_ref heartbeat_at",
    "law_entries": "law_id law_name status harvest_job_id enrich_job_id coverage_score created_at updated_at "
    "harvest_fail_count enrich_fail_count slug",
    "tasks": "id task_type status assignee_account_id traject_id job_id title payload created_at resolved_at resolved_by",
    "job_blobs": "id job_id kind path content created_at",
    "untranslatables": "id law_id enrich_job_id provider article construct reason suggestion legal_text_excerpt accepted "
    "created_at",
    "markings": "law_id enrich_job_id",
    "feature_flags": "key enabled description created_at updated_at",
    "document_uploads": "id traject_ref filename content_type bytes created_at",
    "accounts": "id person_sub email name created_at updated_at",
    "trajects": "id name description scope status created_by created_at updated_at",
    "traject_members": "traject_id account_id role added_at",
    "traject_invites": "traject_id email role invited_by invited_at",
    "traject_corpus_sources": "id traject_id source_id name source_type gh_owner gh_repo gh_branch gh_base_branch gh_path "
    "gh_ref local_path priority auth_ref scopes is_writable_own created_at",
    "user_notes": "id account_id law_id motivation body_value body_format selector created_at updated_at",
    "user_settings": "person_sub key value updated_at",
    "user_favorites": "person_sub law_id created_at traject_id",
}
"""Columns by table. ``markings`` is provisional (D62), so only what we write is asked for."""

INDEXES: Final = ("idx_unique_active_enrich_job", "idx_unique_active_harvest_job")
"""Indexes that correctness rests on; the others only make things fast."""

COMING: Final = frozenset({"jobs.heartbeat_at", "markings"})
"""Items that a platform of the last known release may lack because its next one adds them itself."""


async def exists(connection: Connection, relation: str) -> bool:
    """Whether a table or index of this name is visible."""
    return bool(await connection.fetchval("SELECT to_regclass(quote_ident($1)) IS NOT NULL", relation))


async def missing_items(connection: Connection) -> list[str]:
    """What the platform schema has and this database lacks: ``table``, ``table.column``, ``type 'label'`` or an index."""
    tables = await connection.fetch(
        """
        SELECT c.relname AS name, array_agg(a.attname::text) AS columns
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.oid IN (SELECT to_regclass(quote_ident(t)) FROM unnest($1::text[]) AS t)
        GROUP BY c.relname
        """,
        list(COLUMNS),
    )
    labels = await connection.fetch(
        """
        SELECT t.typname AS name, array_agg(e.enumlabel::text) AS labels
        FROM pg_type t JOIN pg_enum e ON e.enumtypid = t.oid
        WHERE t.oid IN (SELECT to_regtype(quote_ident(n)) FROM unnest($1::text[]) AS n)
        GROUP BY t.typname
        """,
        list(ENUMS),
    )
    has_columns = {row["name"]: set(row["columns"]) for row in tables}
    has_labels = {row["name"]: set(row["labels"]) for row in labels}
    missing: list[str] = []
    for table, columns in COLUMNS.items():
        if table not in has_columns:
            missing.append(table)
        else:
            missing += [f"{table}.{column}" for column in columns.split() if column not in has_columns[table]]
    for name, wanted in ENUMS.items():
        missing += [f"{name} {label!r}" for label in wanted if label not in has_labels.get(name, set())]
    for index in INDEXES:
        if not await exists(connection, index):
            missing.append(index)
    return missing
