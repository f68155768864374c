"""Configuration of every program: Hadoop's keys and this project's, read from site files and checked."""
