"""Configuration of all programs: reads and checks Hadoop's keys and this project's keys in site files."""
