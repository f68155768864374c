"""What is installed beside the packages: man pages, shell completion, a Debian package."""
