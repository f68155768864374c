"""A bookie for development and tests, not for data, with protocols v2 and v3 and a journal with group commit."""
