"""Configuration of all programs: readers of Hadoop's keys and this project's keys in site files, with checks."""
