"""Builders of installed files (man pages, shell completion), a Debian package and a release."""
