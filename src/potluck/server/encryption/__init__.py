"""Sources of the encryption keys, opening the vault, and key rotation."""
