"""Messages on the network, built from `model` and shared by server, provider and consumer."""
