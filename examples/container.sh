#!/bin/sh
# A container: an image of your choice, with a file that goes in and one that comes out.
#
#     sh examples/container.sh
#     IMAGE=docker.io/library/alpine:3.22 sh examples/container.sh
#
# The node needs Docker or Podman, and its owner decides which images others may run
# (docs/providing.md#containers). It prints how many lines the file has, as counted inside, and
# brings the answer back into ./counted.
set -eu

IMAGE=${IMAGE:-docker.io/library/busybox:1.37}

potluck run --image "$IMAGE" --file "$0:script.sh" --output counted -- \
  sh -c 'wc -l < script.sh > output/lines; echo "$(cat output/lines) lines, counted in a container"'
