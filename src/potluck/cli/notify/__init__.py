"""Notifications at the end of a task: bell, desktop, or an apprise URL."""
