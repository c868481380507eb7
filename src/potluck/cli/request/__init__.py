"""From what somebody typed to a TaskRequest: `run` and its like share these options and words."""
