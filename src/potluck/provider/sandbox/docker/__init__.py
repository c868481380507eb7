"""Containers, over the Docker API: Docker, Podman, and gVisor's runsc as a runtime of Docker.

docker/
├── engine            the API over its socket
├── attach            the container's streams
├── container_init    runs inside as the init process: starts the command and relays its streams
├── bridge            connects its frames with our pipes and sockets
├── root              our own minimal image, and how `container_init` starts in any image
├── seccomp_profile   the system-call filter as a profile for container runtimes
├── work_directory    the size-limited work directory of a run
├── container_config  one run as the engine's container configuration
├── container_cgroup  the kernel's counters for a container
├── nvidia            NVIDIA devices through a recent enough container toolkit
├── run               one run, from creating to removing its container
└── docker            the driver
"""
