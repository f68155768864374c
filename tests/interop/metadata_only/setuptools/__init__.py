"""Replaces setuptools while pip downloads a source archive, so that pip runs none of the archive's code."""
