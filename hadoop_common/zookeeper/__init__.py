"""ZooKeeper by kazoo: how an ensemble is reached, who we are there, and its znodes."""
