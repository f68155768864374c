"""The secondary role: comparison of the NameNode's signature with our storage, fetches, merges, proofs of the past."""
