"""Commands about the user's account: sign-in, keys, sessions, balance."""
