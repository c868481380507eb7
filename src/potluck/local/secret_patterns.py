"""What secrets look like, so that none gets into a log, a stored error or a message.

A secret without a form of its own, such as a password without its name, is not recognised: code
must not log it.
"""

import re
from typing import Final

MASK: Final = "[secret]"

# The first group, if there is one, is kept. What was masked matches none of them.
SECRET_PATTERNS: Final[dict[str, re.Pattern[str]]] = {
    # Longer than what is left of a metric's name, such as potluck_device_temperature_celsius.
    "a token of Potluck": re.compile(r"potluck_(?:key|refresh|invite|device)_[A-Za-z0-9_-]{32,}"),
    "a webhook's secret": re.compile(r"whsec_[A-Za-z0-9+/_-]{16,}=*"),
    "a signed token": re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]{8,})?"),
    "a signature or a private key": re.compile(
        r"0x[0-9a-fA-F]{64,}|(?<![\w/])(?<!sha256[:=])[0-9a-fA-F]{64,}"  # hashes are harmless
    ),
    "an authorization header": re.compile(r"(?i)\b((?:bearer|basic) )[\w.~+/-]{16,}=*"),
    "a token in a value": re.compile(r"(?i)(\btoken[\"']?\s*[:=]\s*[\"']?)[\w-]{20,}"),
    # Up to a quote, also an escaped one: a line of JSON stays one.
    "a secret with its name": re.compile(
        r"(?i)((?:password|passphrase|secret|signature|token)=(?:\\?[\"'])?)(?!\[secret\])"
        r"(?:[^\s&\"'\\]|\\[^\s\"'])+"
    ),
    "a key of Amazon": re.compile(r"\bA(?:KIA|SIA)[0-9A-Z]{16}\b"),
    "a password in a URL": re.compile(r"(://[^\s/:@\"']*:)(?!\[secret\])[^\s/@\"']+(?=@)"),
    "a private key in PEM": re.compile(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
    ),
}


def mask_secrets(text: str) -> str:
    for pattern in SECRET_PATTERNS.values():
        text = pattern.sub(_masked, text)
    return text


def _masked(match: re.Match[str]) -> str:
    prefix = match[1] if match.re.groups else ""
    return f"{prefix}{MASK}"
