"""The pages for browsers: HTML, style and scripts as they are served, nothing built."""
