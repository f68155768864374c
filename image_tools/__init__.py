"""Tools that read or rewrite images on their own: verify and repair, compare, dump, load, convert, browse."""
