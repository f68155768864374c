"""Kerberos with a real KDC, and with a real Hadoop that requires it; `python -m tests.kerberos` sets up both."""
