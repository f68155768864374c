"""Configuration: Hadoop's keys and ours, how they are read, and what they are checked for."""
