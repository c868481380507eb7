"""Commands about tasks: run, submit, list, watch, cancel and retry."""
