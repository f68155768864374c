"""Tests that Hadoop reads our files, and that we read Hadoop's; `python -m tests.interop` installs the requirements."""
