"""A failover controller beside a NameNode: health, election, fencing (ZKFailoverController)."""
