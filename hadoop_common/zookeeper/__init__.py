"""Access to ZooKeeper through kazoo: address and identity of a session, and operations on znodes."""
