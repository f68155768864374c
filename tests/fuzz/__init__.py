"""Fuzzing: any bytes give a typed error or a right result; `python -m tests.fuzz` searches, test_corpus replays."""
