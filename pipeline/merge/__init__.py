"""The Spark engine: a checkpoint as Spark jobs."""
