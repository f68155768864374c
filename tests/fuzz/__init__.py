"""Fuzzing: any bytes must cause a typed error or a correct result.

`python -m tests.fuzz` searches for faults; test_corpus replays collected inputs.
"""
