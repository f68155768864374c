"""A failover controller next to a NameNode: health, election, fencing (ZKFailoverController)."""
