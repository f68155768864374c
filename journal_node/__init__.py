"""The JournalNode: storage and promises of journals, QJournalProtocol, HTTP, and the process."""
