"""What is said and decided: messages, failures, parsers and rules. Pure: no await, no clock, no disk, no network."""
