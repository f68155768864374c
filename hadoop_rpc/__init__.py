"""Hadoop IPC version 9: protocol state without I/O, a threaded client and server on top, and the messages."""
