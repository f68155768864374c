"""The BookKeeper journal: segments in ledgers on bookies, named in ZooKeeper (BookKeeperJournalManager)."""
