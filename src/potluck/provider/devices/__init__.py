"""The devices of this node: the offer to the pool, and the proof for contested devices."""
