"""What only looks at images, or rewrites one by itself: verify, compare, dump, convert."""
