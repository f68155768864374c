"""Leadership among the daemons of one cluster: the lock, what its responses allow, and the thread that requests it."""
