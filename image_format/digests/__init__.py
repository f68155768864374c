"""MD5 of two streams in the time of one."""
