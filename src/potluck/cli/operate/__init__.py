"""`potluck up` and `potluck server`: start, check, watch and stop the server and a provider."""
