"""The packages that a task needs: from options and from the files of a project."""
