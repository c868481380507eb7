"""The provider as a service of its owner: started at log-in or boot, and again after a failure."""
