"""Why a task waits, and what would help. The entry module is `explain`."""
