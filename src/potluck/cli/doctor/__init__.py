"""What is well here and what is not: every check with what it found, what it needs and a fix."""
