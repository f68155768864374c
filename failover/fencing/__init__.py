"""Fences a NameNode that does not become a standby on request (NodeFencer)."""
