"""The edit log: operations and their codecs, segment files, and the double-buffered writer."""
