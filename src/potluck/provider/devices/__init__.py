"""The devices of this node: the offer to the pool, and proof that a contested device is here."""
