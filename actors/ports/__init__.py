"""The only modules that do I/O: database, git, child processes, HTTP, sockets, the process table."""
