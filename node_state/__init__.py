"""The state that a node reports, and its representations as JSON, metrics, JMX beans and text."""
