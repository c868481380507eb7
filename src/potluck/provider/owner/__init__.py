"""What the owner of this machine wants of it: said in a file, kept by the provider."""
