"""Pure decisions: values in, actions out; no I/O, no clock, no logging."""
