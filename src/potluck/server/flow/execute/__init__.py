"""Execute: the node runs the attempt and sends its log. Start with `attempt_log`."""
