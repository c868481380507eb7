"""The schema's history. A released migration is never edited; a change is a new file."""
