"""Search of an image by the columns of its inodes: what to look for, the scan, and its rows as text or Parquet."""
