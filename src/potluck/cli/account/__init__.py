"""Commands about the own account: sign-in, keys, sessions, balance."""
