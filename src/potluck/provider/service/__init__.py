"""The provider as a user service: started at login or boot, and restarted after a failure."""
