"""The JournalNode: storage and promises of journals, QJournalProtocol and HTTP, and the process."""
