"""The state that a node reports about itself, and its representations as JSON, metrics, JMX beans and text."""
