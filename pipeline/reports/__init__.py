"""Reports on a namespace: counts made by Spark's tasks, sections with plain values, and writers of several formats."""
