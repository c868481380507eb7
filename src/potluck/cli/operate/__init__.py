"""What `potluck up` does: claim a place, start the parts, check them, welcome, watch, stop."""
