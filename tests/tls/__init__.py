"""Key stores, certificates and HTTPS."""
