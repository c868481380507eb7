"""How the owner's commands on this machine talk with the provider that runs here."""
