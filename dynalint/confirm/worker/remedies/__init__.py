"""What can be done where a break stays in the source: settings, parts compiled by themselves, arguments given."""
