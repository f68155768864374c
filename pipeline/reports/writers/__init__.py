"""Writers of reports as text and as folders of tables."""
