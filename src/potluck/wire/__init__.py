"""What crosses the network, built from `model`. Server, provider and consumer share these types."""
