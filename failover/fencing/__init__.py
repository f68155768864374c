"""What keeps a NameNode from doing harm that cannot be asked to become a standby (NodeFencer)."""
