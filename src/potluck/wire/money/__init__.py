"""Messages about credit: the ledger of an account, rewards and payouts."""
