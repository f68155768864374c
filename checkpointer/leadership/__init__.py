"""Leadership among the daemons of one cluster: the lock, the effects of its answers, and the thread that asks for it."""
