"""The kinds of audit entries."""

from enum import StrEnum


class AuditKind(StrEnum):
    # a wallet signed in for the first time, or the operator named it
    ACCOUNT_CREATED = "account_created"
    SIGNED_IN = "signed_in"  # a session was opened
    SIGNED_OUT = "signed_out"  # a session was ended by itself
    SESSION_ENDED = "session_ended"  # a session was ended by its owner from another one
    # a refresh token came a second time, and its session was ended
    REFRESH_REUSED = "refresh_reused"
    ROLES_CHANGED = "roles_changed"  # an account has other roles now
    ACCOUNT_SUSPENDED = "account_suspended"  # an admin suspended an account
    ACCOUNT_RESUMED = "account_resumed"  # an admin let it in again
    CREDIT_GRANTED = "credit_granted"  # an admin gave credit
    QUOTA_SET = "quota_set"  # an admin said how much of the pool an account may have
    INVITE_MADE = "invite_made"  # an admin made an invite
    INVITE_REVOKED = "invite_revoked"  # an admin took an invite back
    KEY_MADE = "key_made"  # an API key was made
    KEY_USED = "key_used"  # an API key was used for the first time within an hour
    KEY_REVOKED = "key_revoked"  # an API key was revoked
    NODE_KEY_AUTHORISED = "node_key_authorised"  # a wallet authorised a node key
    NODE_KEY_USED = "node_key_used"  # a node key was used for the first time within an hour
    NODE_KEY_REVOKED = "node_key_revoked"  # a node key was revoked
    DEVICE_BOUND = "device_bound"  # a device was bound to a wallet
    DEVICE_CONTESTED = "device_contested"  # another wallet showed a bound device
    # a binding ended: the node left, it lapsed, or another wallet won it
    DEVICE_UNBOUND = "device_unbound"
    TERMS_CHANGED = "terms_changed"  # an owner asked a node for other terms, from elsewhere
    ORDER_GIVEN = "order_given"  # an owner gave a node an order, from elsewhere
    # an account has events sent to an address; its host, and not the rest of it
    WEBHOOK_MADE = "webhook_made"
    WEBHOOK_CHANGED = "webhook_changed"  # it changed the address, the name or which events
    WEBHOOK_ROTATED = "webhook_rotated"  # it made a new secret for one
    WEBHOOK_REMOVED = "webhook_removed"  # it removed one
    ENCRYPTION_KEY_ROTATED = "encryption_key_rotated"  # a new encryption key is in use
