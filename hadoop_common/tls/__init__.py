"""TLS as configured in Hadoop: Java's key stores, ssl-server.xml, ssl-client.xml, and reloading contexts."""
