"""Reports on a namespace: small values that any writer prints, and the queries that make them."""
