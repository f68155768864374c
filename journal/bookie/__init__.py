"""A bookie for development and tests, not for data: protocols v2 and v3, a journal with group commit."""
