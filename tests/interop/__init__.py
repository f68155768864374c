"""Our files, read and written by a real Hadoop; `python -m tests.interop` sets up what that needs."""
