"""The kinds of audit entries."""

from enum import StrEnum


class AuditKind(StrEnum):
    # a wallet signed in for the first time, or the operator named it
    ACCOUNT_CREATED = "account_created"
    SIGNED_IN = "signed_in"  # a session was opened
    SIGNED_OUT = "signed_out"  # a session ended itself
    SESSION_ENDED = "session_ended"  # its owner ended a session from another one
    # a refresh token was used a second time, and its session was ended
    REFRESH_REUSED = "refresh_reused"
    ROLES_CHANGED = "roles_changed"  # the roles of an account changed
    ACCOUNT_SUSPENDED = "account_suspended"  # an admin suspended an account
    ACCOUNT_RESUMED = "account_resumed"  # an admin lifted the suspension
    CREDIT_GRANTED = "credit_granted"  # an admin granted credit
    CREDIT_TAKEN = "credit_taken"  # an admin took credit back
    # an account chose whether its rewards stay credits or are paid outside
    REWARDS_CHOSEN = "rewards_chosen"
    PAYOUTS_MARKED = "payouts_marked"  # an admin recorded payouts outside the pool
    # an admin let deposits and payouts go on after they had stopped
    PAYOUTS_RESUMED = "payouts_resumed"
    ACCOUNT_LABELLED = "account_labelled"  # an admin set or removed the label of an account
    NODE_CORDONED = "node_cordoned"  # an admin stopped new work on a node
    NODE_UNCORDONED = "node_uncordoned"  # an admin allowed new work on a node again
    NODE_REMOVED = "node_removed"  # an admin removed a silent node
    QUOTA_SET = "quota_set"  # an admin set the quota of an account
    INVITE_MADE = "invite_made"  # an admin created an invite
    INVITE_REVOKED = "invite_revoked"  # an admin revoked an invite
    KEY_MADE = "key_made"  # an API key was created
    KEY_USED = "key_used"  # an API key was used for the first time within an hour
    KEY_REVOKED = "key_revoked"  # an API key was revoked
    KEYS_REVOKED = "keys_revoked"  # all API keys of an account were revoked
    NODE_KEY_AUTHORISED = "node_key_authorised"  # a wallet authorised a node key
    NODE_KEY_USED = "node_key_used"  # a node key was used for the first time within an hour
    NODE_KEY_REVOKED = "node_key_revoked"  # a node key was revoked
    DEVICE_BOUND = "device_bound"  # a device was bound to a wallet
    DEVICE_CONTESTED = "device_contested"  # another wallet reported a bound device
    # a binding ended: the node left, it lapsed, or another wallet won it
    DEVICE_UNBOUND = "device_unbound"
    TERMS_CHANGED = "terms_changed"  # an owner changed a node's terms remotely
    ORDER_GIVEN = "order_given"  # an owner gave a node an order remotely
    # an account created a webhook; the entry has only the host of its address
    WEBHOOK_MADE = "webhook_made"
    WEBHOOK_CHANGED = "webhook_changed"  # the address, name or events of a webhook changed
    WEBHOOK_ROTATED = "webhook_rotated"  # a webhook got a new secret
    WEBHOOK_REMOVED = "webhook_removed"  # a webhook was removed
    ALERT_SILENCED = "alert_silenced"  # an admin silenced alerts
    ALERT_UNSILENCED = "alert_unsilenced"  # an admin ended a silence
    ENCRYPTION_KEY_ROTATED = "encryption_key_rotated"  # a new encryption key is in use
