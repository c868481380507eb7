"""Why a task waits, and what would help. The door is `explain`."""
