"""`potluck receipts`: what nodes signed and the server countersigned."""
