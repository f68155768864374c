"""Declarations of the tables of images and edits."""
