"""The HTTP interface of role ``api``: pipelines, connectors, folders, runs, and the run history as an MCP tool (D70).

One table of operations is what is routed, what is checked and what ``/openapi.json`` says. Imported only with the role.
"""
