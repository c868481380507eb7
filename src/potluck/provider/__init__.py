"""The provider client: link → state → runner → sandbox, on somebody's own machine."""
