"""Leadership among the daemons of one cluster: the lock, what its answers allow, and the thread that requests it."""
