"""The local machine, for every part: directories, locks, durable files, settings, options."""
