"""Search of an image by the columns of its inodes: the criteria, the scan, and its rows as text or Parquet."""
