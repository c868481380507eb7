"""Who the client is: profile, wallet, session and sign-in."""
