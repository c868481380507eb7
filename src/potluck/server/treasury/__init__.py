"""`potluck treasury`: the process that holds the key of payouts. Start with `process`."""
