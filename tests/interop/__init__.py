"""Our files in the hands of a real Hadoop 2.7.3; `python -m tests.interop` sets up what that needs."""
