"""Encryption of sensitive columns: the key ring, the vault and the installation secret."""
