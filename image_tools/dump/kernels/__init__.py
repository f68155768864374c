"""The kernel that prints records; its twin is `image_tools.dump.template`."""
