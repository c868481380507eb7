"""The kinds of facts that the audit keeps."""

from enum import StrEnum


class AuditKind(StrEnum):
    ACCOUNT_CREATED = "account_created"
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    SESSION_ENDED = "session_ended"
    REFRESH_REUSED = "refresh_reused"
    ROLES_CHANGED = "roles_changed"
    ACCOUNT_SUSPENDED = "account_suspended"
    ACCOUNT_RESUMED = "account_resumed"
    CREDIT_GRANTED = "credit_granted"
    QUOTA_SET = "quota_set"
    INVITE_MADE = "invite_made"
    INVITE_REVOKED = "invite_revoked"
    KEY_MADE = "key_made"
    KEY_USED = "key_used"
    KEY_REVOKED = "key_revoked"
    NODE_KEY_AUTHORISED = "node_key_authorised"
    NODE_KEY_USED = "node_key_used"
    NODE_KEY_REVOKED = "node_key_revoked"
    DEVICE_BOUND = "device_bound"
    DEVICE_CONTESTED = "device_contested"
    DEVICE_UNBOUND = "device_unbound"
    ENCRYPTION_KEY_ROTATED = "encryption_key_rotated"
