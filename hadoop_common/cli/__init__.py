"""What commands share: groups, options, arguments, output."""
