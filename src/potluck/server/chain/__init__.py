"""What the server does on a chain: contract wallets, and the rewards contract."""
