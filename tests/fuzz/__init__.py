"""Fuzzing: any bytes give a typed error or a correct result; `python -m tests.fuzz` searches, test_corpus replays."""
