"""The JournalNode: storage, the promises it makes, and QJournalProtocol on top of them (qjournal.server)."""
