"""Kernels over image records for the tables of the data sources; their twins are in the tests."""
