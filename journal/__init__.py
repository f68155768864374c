"""The edit log: operations and their codecs, segment files, the double-buffered writer."""
