"""The owner's terms for this machine: stated in a file, enforced by the provider."""
