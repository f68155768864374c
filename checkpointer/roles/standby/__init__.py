"""The standby role: the other NameNodes, the shared edits and their tail, and images of other NameNodes."""
