"""Our files in the hands of a real Hadoop; `python -m tests.interop` sets up what that needs."""
