"""Containers by Docker, Podman and gVisor, each started for the tests with data of its own."""
