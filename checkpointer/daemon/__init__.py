"""The long-running process: a role that can checkpoint, a service that decides when, and the shell around both."""
