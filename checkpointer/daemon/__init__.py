"""The daemon: the service that decides when its role makes a checkpoint, and the process around it."""
