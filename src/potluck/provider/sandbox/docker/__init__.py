"""Containers, over the Docker API: Docker, Podman, and gVisor's runsc as a runtime of Docker.

docker/
├── engine    the API over its socket
├── attach    the container's streams, which take the connection over
├── first     runs inside as the first process: starts the command, and is its only way out
├── bridge    what comes from there goes into pipes and sockets of ours, and back
├── root      the image that is made from nothing, and how `first` starts in any image
├── profile   the system-call filter, in the words of container runtimes
├── work      the directory that a run works in, with a size
├── casing    one run as the engine is told of it: all the walls
├── group     what the kernel counts for a container
├── nvidia    cards by way of NVIDIA's toolkit, where it is new enough
├── run       one run, from its container's making to the last trace of it
└── docker    the driver
"""
