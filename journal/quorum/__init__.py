"""The quorum journal: one writer at a time writes segments to a majority of JournalNodes (QuorumJournalManager)."""
