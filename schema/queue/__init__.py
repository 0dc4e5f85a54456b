"""The job queue.

As a library for other programs, import from here: each function takes a connection and is one unit of work (D24). The
supervisor itself uses the modules below, through ``actors.ports.pgqueue``.
"""

from protocols.backoff import retry_backoff
from schema.queue.create import create_enrich_job_if_not_exists, create_harvest_job_if_not_exists, create_job
from schema.queue.library import (
    beat,
    claim_job,
    complete_job,
    count_enrich_jobs_started_this_hour,
    fail_job,
    fail_job_terminal,
    reap_orphaned_jobs,
    update_progress,
)
from schema.queue.views import get_job, list_jobs
from schema.rows import JobRequest

__all__ = [
    "JobRequest",
    "beat",
    "claim_job",
    "complete_job",
    "count_enrich_jobs_started_this_hour",
    "create_enrich_job_if_not_exists",
    "create_harvest_job_if_not_exists",
    "create_job",
    "fail_job",
    "fail_job_terminal",
    "get_job",
    "list_jobs",
    "reap_orphaned_jobs",
    "retry_backoff",
    "update_progress",
]
