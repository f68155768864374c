"""The state that a node reports about itself, and its renderings: JSON, metrics, JMX beans and text."""
