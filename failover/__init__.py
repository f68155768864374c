"""A failover controller next to a NameNode: health checks, election and fencing (ZKFailoverController)."""
