"""Installed files besides the packages: man pages, shell completion, a Debian package, a release."""
