"""Images fetched from a NameNode as backups: what is offered, the folder they lie in, and how they get there."""
