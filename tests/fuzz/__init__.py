"""Fuzzing: any bytes must cause a typed error or a correct result. `python -m tests.fuzz` searches; test_corpus
replays.
"""
