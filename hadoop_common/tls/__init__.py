"""TLS as Hadoop configures it: Java's key stores, ssl-server.xml, ssl-client.xml, contexts that follow their files."""
