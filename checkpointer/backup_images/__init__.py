"""Images fetched from a NameNode as backups: the offer, the fetch and the folder."""
