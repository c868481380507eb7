"""Settlement on an EVM chain: an optional part, installed with `potluck[chain]`."""
