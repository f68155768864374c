"""Kerberos with a real KDC, and with a real Hadoop 2.7.3 that demands it; `python -m tests.kerberos` sets up both."""
