"""Alerts, silences, their messages, the readings of instances, and the error log."""
