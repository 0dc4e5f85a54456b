"""One file a command, and this table. A command module is imported only when its command is used.

``--help`` and ``--version`` import none of them, and a module imports trio and the rest inside its functions, so that
its own ``--help`` is quick too (D28).
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("supervisor.commands.run", "Run a supervisor until it is told to stop."),
    "harvest": ("supervisor.commands.harvest", "Ask for a law to be harvested."),
    "enrich": ("supervisor.commands.enrich", "Ask for a law to be enriched, or to begin anew."),
    "jobs": ("supervisor.commands.jobs", "List, show, cancel or retry jobs."),
    "laws": ("supervisor.commands.laws", "List or show laws and their status."),
    "status": ("supervisor.commands.status", "Show the queue: what waits, runs, failed, is paused."),
    "usage": ("supervisor.commands.usage", "Show what the calls of agents used and cost."),
    "pause": ("supervisor.commands.pause", "Let nobody take jobs of a type, or for a provider."),
    "resume": ("supervisor.commands.resume", "End a pause."),
    "provider": ("supervisor.commands.provider", "Free a provider that supervisors have benched."),
    "repl": ("supervisor.commands.repl", "Look into a running supervisor on this machine."),
    "pipelines": ("supervisor.commands.pipelines", "List or run pipelines, repair their schedules."),
    "workspace": ("supervisor.commands.workspace", "Make or list the workspaces that pipelines belong to."),
    "member": ("supervisor.commands.member", "Let accounts into workspaces."),
    "wallet": ("supervisor.commands.wallet", "Credit or show the wallet that pays for crawls."),
    "token": ("supervisor.commands.token", "Make, list or revoke tokens of the HTTP interface."),
    "mcp": ("supervisor.commands.mcp", "Serve the run history of a workspace to a chat agent (MCP)."),
    "migrate": ("supervisor.commands.migrate", "Bring the database schema up to date."),
    "convert": ("supervisor.commands.convert", "Convert a law file from XML to YAML; needs no database."),
    "enrich-once": ("supervisor.commands.enrich_once", "Enrich a law in a folder, with an agent of your own."),
    "download": ("supervisor.commands.download", "Download and convert a law; needs no database."),
    "search": ("supervisor.commands.search", "Search the public repository for laws by name."),
    "replay": ("supervisor.commands.replay", "Show what the supervisor makes of a recorded agent stream."),
    "mirror": ("supervisor.commands.mirror", "Save the raw files of laws in a folder, or serve it."),
    "vlam-check": ("supervisor.commands.vlam_check", "Ask the VLAM model service whether it is fit for work."),
}
"""Name to module and the line in the list of commands. Each module has a click command named ``command``."""
