"""The client's identity: profile, wallet, session and sign-in."""
