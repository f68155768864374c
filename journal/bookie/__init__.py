"""A bookie only for development and tests, with protocols v2 and v3 and a journal with group commit."""
