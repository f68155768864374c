"""Web console for a daemon, its cluster and the runbook, rendered from the responses of GET /status."""
