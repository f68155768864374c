"""Reports on a namespace: Spark queries, sections with their results as plain values, and writers of
several formats.
"""
