"""Images fetched from a NameNode as backups: what is offered, the folder they are in, and how they get there."""
