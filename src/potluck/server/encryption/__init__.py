"""Where the encryption keys are kept, how the vault is opened, and how keys are changed."""
