"""The console: a daemon, its cluster and the runbook in a browser, made from the responses of GET /status."""
