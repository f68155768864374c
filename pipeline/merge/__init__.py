"""The checkpoint as a Spark job."""
