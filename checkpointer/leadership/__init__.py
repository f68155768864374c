"""Leadership among the daemons of one cluster: the lock, the decisions that its responses allow, and the requesting
thread.
"""
