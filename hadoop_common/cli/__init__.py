"""Parts shared by commands: groups, options, arguments, output."""
