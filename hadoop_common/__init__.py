"""What every package shares: error root, durable file writes, Hadoop's names and configuration."""
