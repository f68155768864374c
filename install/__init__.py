"""Builders of installed files (man pages, shell completion), of a Debian package and of a release."""
