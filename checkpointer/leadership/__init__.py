"""Which of several daemons for one cluster makes the checkpoints: one leads, the others stay warm and take over."""
