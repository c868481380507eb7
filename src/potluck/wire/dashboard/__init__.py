"""Messages for people who look: the market, templates, actions on many tasks, saved views."""
