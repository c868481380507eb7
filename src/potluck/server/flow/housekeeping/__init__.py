"""Housekeeping: ends what expired and removes what is unused. Start with `expire`."""
