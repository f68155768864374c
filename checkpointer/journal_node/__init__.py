"""The JournalNode as a process: its configuration, its servers, and the sync with its peers."""
