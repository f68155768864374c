"""What the daemon does beside a NameNode, a folder for each role."""
