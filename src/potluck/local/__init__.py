"""What every part needs of the machine it runs on, and nothing of the domain.

Directories that one process holds, files that are whole or not there, and what the owner said in
options and variables.
"""
