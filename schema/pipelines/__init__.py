"""Pipelines in the database: schedules, runs, leases, wallets, documents (``pipelines.md``).

Locks are taken in one order, deletes included: jobs, pipelines, connectors, pipeline_runs, credit_wallets, documents,
leases; several rows of one table by id (D68). Every write of a running claim happens behind the fence of its job (D1).
"""
