"""The waiting tasks in groups, and why a group is blocked. The entry module is `task_groups`."""
