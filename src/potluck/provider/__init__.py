"""The provider, on its owner's machine: server client → state → runner → sandbox."""
