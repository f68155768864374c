"""The JournalNode: storage of journals, the promises it keeps, QJournalProtocol and HTTP, and the process."""
