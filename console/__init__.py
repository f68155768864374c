"""The console: a daemon, its cluster and the runbook in a browser, made of the answers of GET /status."""
