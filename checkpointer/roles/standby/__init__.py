"""What the standby role is made of: the other NameNodes, the tail of the journal, the first image."""
