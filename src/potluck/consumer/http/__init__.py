"""HTTP to one server: transport, retries, timeouts, streams and cached responses."""
