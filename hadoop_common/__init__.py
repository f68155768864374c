"""Foundations of every package: error root, durable file writes, Hadoop's names and configuration."""
