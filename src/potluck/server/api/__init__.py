"""The routes: strict input in, problem details out, nothing decided here."""
