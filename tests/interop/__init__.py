"""Our files, read and written by a real Hadoop; `python -m tests.interop` installs the requirements."""
