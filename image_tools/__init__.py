"""Tools that read or rewrite images without edits: verify and repair, compare, dump, load, convert, browse."""
