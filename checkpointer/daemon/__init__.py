"""The daemon: the service that decides when its role makes a checkpoint, and the process that runs the service."""
