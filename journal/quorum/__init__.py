"""The quorum journal: segments written to a majority of JournalNodes, one writer at a time (QuorumJournalManager)."""
