"""Tokens that are almost right: each is a 401, and one answer is like the other, byte for byte."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from msgspec import Struct
from urllib3 import HTTPHeaderDict

from potluck.model.ids import AttemptId
from potluck.server.auth.tokens import lease_token
from potluck.server.derived_keys import Keys
from potluck.wire import routes
from tests.case_counts import counting_cases
from tests.databases import Databases
from tests.processes import ServerProcess
from tests.processor_time import OwnTime
from tests.security import forged_tokens
from tests.security.server_keys import ENCRYPTION_KEY, keys_of
from tests.wallets import Wallet

LARGE = 2**20
CLAIMS = ("iss", "aud", "sub", "exp", "iat", "jti", "typ", "sid")
# Of other types than they have, or of no type that JSON knows.
WRONG_TYPES: tuple[Any, ...] = (None, True, 0, -1, 1e300, "", "x", [], {}, [None], {"a": 1})


class World(Struct, frozen=True):
    """A server, what it signs with, and one who may come in."""

    server: ServerProcess
    keys: Keys
    tokens: dict[str, Any]
    others: dict[str, Any]  # somebody else's
    ended: str  # the token of a session that was signed out

    @property
    def good(self) -> str:
        token: str = self.tokens["access_token"]
        return token

    @property
    def claims(self) -> dict[str, Any]:
        return forged_tokens.claims_of(self.good)

    def signed(self, **changes: Any) -> str:
        """With the server's own key: right but for what is changed."""
        return forged_tokens.token({**self.claims, **changes}, self.keys.access)

    def ask(self, headers: Any, path: str = routes.ME.path) -> urllib3.BaseHTTPResponse:
        return urllib3.request(
            "GET", self.server.url + path, headers=headers, retries=False, timeout=30
        )

    def ask_with(self, token: str) -> urllib3.BaseHTTPResponse:
        return self.ask({"Authorization": f"Bearer {token}".encode()})


@pytest.fixture(scope="module")
def world(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("forged")
    with databases.fresh() as url, _server(directory, url) as server:
        keys = keys_of(url)
        alice, bob = Wallet("alice"), Wallet("bob")
        ended_token = alice.sign_in(server.url)["access_token"]
        assert server.client(ended_token).call("POST", routes.LOGOUT.path).status == 204
        yield World(server, keys, alice.sign_in(server.url), bob.sign_in(server.url), ended_token)


def _server(directory: Path, database_url: str) -> ServerProcess:
    """Strangers are not slowed down: a thousand of them come from one address."""
    return ServerProcess(
        directory,
        POTLUCK_DATABASE_URL=database_url,
        POTLUCK_ENCRYPTION_KEY=ENCRYPTION_KEY,
        POTLUCK_ADDRESS_REQUESTS_PER_SECOND="0",
    )


def altered_headers(world: World) -> Iterator[tuple[str, str]]:
    """What a token's own header says about how to check it is not believed."""
    claims, key = world.claims, world.keys.access
    for none_name in ("none", "None", "NONE", "nOnE", "", "HS256\x00"):
        yield (
            f"alg {none_name!r}, no signature",
            forged_tokens.unsigned(claims, {**forged_tokens.HEADER, "alg": none_name}),
        )
        yield (
            f"alg {none_name!r}, signed",
            forged_tokens.token(claims, key, {**forged_tokens.HEADER, "alg": none_name}),
        )
    for alg in ("HS384", "HS512"):
        yield (
            f"{alg}, signed so",
            forged_tokens.token(claims, key, {**forged_tokens.HEADER, "alg": alg}, alg),
        )
        yield f"{alg}, said HS256", forged_tokens.token(claims, key, alg=alg)
    for other in ("RS256", "ES256", "PS256", "EdDSA", "hs256", None, 256, ["HS256"]):
        yield (
            f"alg {other}",
            forged_tokens.token(claims, key, {**forged_tokens.HEADER, "alg": other}),
        )
    yield "no alg", forged_tokens.token(claims, key, {"typ": "at+jwt"})
    for typ in ("JWT", "at+JWT", "application/at+jwt", "refresh+jwt", None, 1):
        yield (
            f"header typ {typ}",
            forged_tokens.token(claims, key, {**forged_tokens.HEADER, "typ": typ}),
        )
    yield "no header typ", forged_tokens.token(claims, key, {"alg": "HS256"})
    for name, value in _tricks(world).items():
        header = {**forged_tokens.HEADER, **value}
        yield f"{name}, signed", forged_tokens.token(claims, key, header)
        yield f"{name}, empty key", forged_tokens.token(claims, b"", header)
    for text in (b"", b"null", b"[]", b'"HS256"', b"\xff", b"{", b"[" * 300):
        signed = forged_tokens.encoded(text)
        yield f"header {text[:9]!r}", f"{signed}.{'.'.join(world.good.split('.')[1:])}"


def _tricks(world: World) -> dict[str, dict[str, Any]]:
    symmetric = {"kty": "oct", "k": forged_tokens.encoded(b"x"), "alg": "HS256"}
    return {
        "kid of a path": {"kid": "../../../../dev/null"},
        "kid of SQL": {"kid": "x' UNION SELECT 'key' -- "},
        "kid of a command": {"kid": "|id"},
        "kid of an address": {"kid": world.server.url},
        "jku": {"jku": f"{world.server.url}/keys"},
        "x5u": {"x5u": f"{world.server.url}/cert"},
        "x5c": {"x5c": ["MIIB"]},
        "jwk": {"jwk": symmetric},
        "crit": {"crit": ["exp"]},
        "crit of nothing": {"crit": []},
        "b64": {"b64": False, "crit": ["b64"]},
        "zip": {"zip": "DEF"},
        "cty": {"cty": "JWT"},
    }


def other_keys(world: World) -> Iterator[tuple[str, str]]:
    claims = world.claims
    for name in world.keys.__struct_fields__:
        if name != "access":
            yield f"our key for {name}", forged_tokens.token(claims, getattr(world.keys, name))
    for key in (b"", b"secret", b"potluck", bytes(32), claims["iss"].encode(), b"x" * 32):
        yield f"key {key[:9]!r}", forged_tokens.token(claims, key)
    private = rsa.generate_private_key(65537, 2048)
    header = {**forged_tokens.HEADER, "alg": "RS256"}
    signed = f"{forged_tokens.encoded(header)}.{forged_tokens.encoded(claims)}"
    signature = private.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
    yield "RSA", f"{signed}.{forged_tokens.encoded(signature)}"


def altered_claims(world: World) -> Iterator[tuple[str, str]]:
    """Signed with the server's own key, so that nothing but the claim is wrong."""
    now = int(time.time())
    for name in CLAIMS:
        claims = {key: value for key, value in world.claims.items() if key != name}
        yield f"no {name}", forged_tokens.token(claims, world.keys.access)
        for value in WRONG_TYPES:
            # An old time of issue is no fault, and jti is any text.
            if (name, repr(value)) in (("iat", "0"), ("jti", "''"), ("jti", "'x'")):
                continue
            yield f"{name} is {value!r}", world.signed(**{name: value})
    yield "expired an hour ago", world.signed(exp=now - 3600, iat=now - 7200)
    yield "expired just now", world.signed(exp=now - 10, iat=now - 900)
    yield "of the future", world.signed(iat=now + 3600, exp=now + 7200)
    yield "not before", world.signed(nbf=now + 3600)
    yield "exp as text", world.signed(exp=str(now + 900))
    for text in ("NaN", "Infinity", "-Infinity", "1e999", "9" * 400):
        yield f"exp {text[:9]}", forged_tokens.token(_raw(world, exp=text), world.keys.access)
    yield "another issuer", world.signed(iss="potluck-0000000000000000")
    yield "issuer of an origin", world.signed(iss=world.server.url)
    yield "a list of issuers", world.signed(iss=[world.claims["iss"]])
    yield "another audience", world.signed(aud="other")
    yield "a list of audiences", world.signed(aud=["potluck", "other"])
    for kind in ("node", "refresh", "device", "lease", "Access", "access ", "key"):
        yield f"typ {kind}", world.signed(typ=kind)


def _raw(world: World, **texts: str) -> bytes:
    """Claims with values that JSON's writers refuse to write."""
    fields = {**{name: json.dumps(value) for name, value in world.claims.items()}, **texts}
    return ("{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}").encode()


def other_subjects(world: World) -> Iterator[tuple[str, str]]:
    """A session is one account's; a token that mixes two is nobody's."""
    others = forged_tokens.claims_of(world.others["access_token"])
    yield "somebody else's session", world.signed(sid=others["sid"])
    yield "somebody else", world.signed(sub=others["sub"])
    yield "an unknown session", world.signed(sid="session_01jd0000000000000000000000")
    yield "an unknown account", world.signed(sub="account_01jd0000000000000000000000")
    yield "SQL", world.signed(sid="' OR true --", sub=others["sub"])
    yield "a session with a NUL", world.signed(sid="session_\x00")
    yield "a session of surrogates", world.signed(sid="\ud800")
    yield "a long session", world.signed(sid="s" * 300)
    yield "signed out", world.ended


def other_kinds(world: World) -> Iterator[tuple[str, str]]:
    """Secrets and names of this server that are no token."""
    claims, client = world.claims, world.server.client(world.good)
    created_key = client.post(routes.MAKE_KEY.path, {"name": "old", "scopes": ["account:read"]})
    assert world.ask_with(created_key["secret"]).status == 200
    client.call("DELETE", routes.REVOKE_KEY.url(key_id=created_key["key"]["id"]))
    yield "a revoked key", created_key["secret"]
    yield "a key's id", created_key["key"]["id"]
    for tail in (
        "",
        "x",
        "A" * 43,
        created_key["secret"][len("potluck_key_") :].swapcase(),
        "%00",
        "é",
    ):
        yield f"a key of {tail[:9]!r}", f"potluck_key_{tail}"
    yield "a key in capitals", created_key["secret"].upper()
    yield "a refresh token", world.tokens["refresh_token"]
    yield "a refresh token as a key", f"potluck_key_{world.tokens['refresh_token']}"
    attempt_id = AttemptId("attempt_01jd0000000000000000000000")
    yield "a lease token", lease_token(world.keys.lease, attempt_id)
    yield "a nonce", client.post(routes.CHALLENGE.path, {})["nonce"]
    yield "an address", world.tokens["address"]
    for name in ("sub", "sid", "jti", "iss"):
        yield f"its own {name}", claims[name]


def malformed(world: World) -> Iterator[tuple[str, str]]:
    head, body, signature = world.good.split(".")
    yield "no parts", "x"
    yield "dots", ".."
    yield "one part", head
    yield "two parts", f"{head}.{body}"
    yield "no signature", f"{head}.{body}."
    yield "four parts", f"{world.good}.{signature}"
    yield "five parts", f"{world.good}.{head}.{body}"
    yield "no claims", f"{head}..{signature}"
    yield "parts in another order", f"{body}.{head}.{signature}"
    yield "padded", f"{world.good}="
    yield "quoted", f'"{world.good}"'
    yield "twice", f"{world.good} {world.good}"
    yield "with a comma", f"{world.good}, Bearer {world.good}"
    yield "a space before it", f" {world.good}"
    yield "in ordinary base64", f"{head}.{body}.{signature.replace('-', '+').replace('_', '/')}+"
    for claims in (b"", b"null", b"[]", b"1", b'"x"', b"{", b"\xff\xfe", b"[" * 300):
        yield f"claims {claims[:9]!r}", forged_tokens.token(claims, world.keys.access)
    for size in (1025, 8192):
        yield f"{size} bytes", "x" * size
        yield f"{size} bytes, signed", world.signed(pad="x" * size)


TABLES = {
    "altered headers": altered_headers,
    "other keys": other_keys,
    "altered claims": altered_claims,
    "other subjects": other_subjects,
    "other kinds": other_kinds,
    "malformed": malformed,
}


@pytest.mark.parametrize("name", TABLES)
def test_a_forged_token_is_a_401(world: World, name: str, request: pytest.FixtureRequest) -> None:
    expected = _refusal(world)
    with counting_cases(request) as tally:
        for case, forged in TABLES[name](world):
            with tally(f"forged tokens, {name}", case):
                assert _said(world.ask_with(forged)) == expected
    assert world.ask_with(world.good).status == 200


def test_each_changed_byte_is_a_401(world: World, request: pytest.FixtureRequest) -> None:
    """Every bit that a byte of base64 can lose, the spare ones at the end of a part included."""
    expected, good = _refusal(world), world.good
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    with counting_cases(request) as tally:
        for position, was in enumerate(good):
            if was == ".":
                changes = ["-", ","]
            else:
                number = alphabet.index(was)
                bits = range(6) if position > len(good) - 3 else (position % 6,)
                changes = [alphabet[number ^ (1 << bit)] for bit in bits]
            for change in changes:
                with tally("forged tokens, each byte changed", f"{position} to {change}"):
                    forged = good[:position] + change + good[position + 1 :]
                    assert _said(world.ask_with(forged)) == expected
        for position in range(0, len(good), 7):
            for inserted in ("!", "=", "%", "~"):
                with tally("forged tokens, a byte put in", f"{inserted} at {position}"):
                    forged = good[:position] + inserted + good[position:]
                    assert _said(world.ask_with(forged)) == expected


def header_forms(world: World) -> dict[str, Any]:
    """A good token, but not in exactly one Authorization header of the Bearer scheme."""
    good, bad = f"Bearer {world.good}", "Bearer x"
    return {
        "nothing": {},
        "empty": {"Authorization": ""},
        "the scheme alone": {"Authorization": "Bearer"},
        "the scheme and a space": {"Authorization": "Bearer "},
        "the token alone": {"Authorization": world.good},
        "Basic": {"Authorization": f"Basic {world.good}"},
        "Token": {"Authorization": f"Token {world.good}"},
        "no space": {"Authorization": f"Bearer{world.good}"},
        "two spaces": {"Authorization": f"Bearer  {world.good}"},
        "a tab": {"Authorization": f"Bearer\t{world.good}"},
        "a colon": {"Authorization": f"Bearer: {world.good}"},
        "twice, both good": HTTPHeaderDict([("Authorization", good), ("Authorization", good)]),
        "twice, the first good": HTTPHeaderDict([("Authorization", good), ("Authorization", bad)]),
        "twice, the last good": HTTPHeaderDict([("Authorization", bad), ("Authorization", good)]),
        "twice, spelled otherwise": HTTPHeaderDict(
            [("Authorization", good), ("authorization", bad)]
        ),
        "another header": {"X-Authorization": good},
        "for a proxy": {"Proxy-Authorization": good},
        "with an underscore": {"Author_ization": good},
        "an API key's header": {"X-API-Key": world.good},
        "a cookie": {"Cookie": f"Authorization={world.good}; access_token={world.good}"},
        "a forwarded user": {"X-Forwarded-User": world.tokens["account_id"], "Remote-User": "root"},
    }


def test_a_token_elsewhere_is_a_401(world: World, request: pytest.FixtureRequest) -> None:
    expected = _refusal(world)
    with counting_cases(request) as tally:
        for case, headers in header_forms(world).items():
            with tally("forged tokens, elsewhere", case):
                assert _said(world.ask(headers)) == expected
        for name in ("access_token", "token", "authorization", "Authorization"):
            with tally("forged tokens, elsewhere", f"{name} in the address"):
                url = f"{routes.ME.path}?{name}={world.good}"
                assert _said(world.ask({}, url)) == expected


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_spelled_in_any_case(world: World, scheme: str) -> None:
    assert world.ask({"Authorization": f"{scheme} {world.good}"}).status == 200


@pytest.mark.parametrize("prefix", ["", "potluck_key_"])
def test_a_megabyte_is_no_token(world: World, prefix: str) -> None:
    """The edge of HTTP stops it long before it is whole, and says what everybody is told."""
    with OwnTime(world.server.process.pid) as cpu_time:
        response = world.ask_with(prefix + "x" * LARGE)
    assert _said(response) == _refusal(world)
    assert cpu_time.seconds < 1


def _refusal(world: World) -> tuple[int, bytes, dict[str, str]]:
    """What everybody is told who comes with nothing."""
    response = _said(world.ask({}))
    assert response[0] == 401 and json.loads(response[1])["code"] == "not_signed_in"
    return response


def _said(answer: urllib3.BaseHTTPResponse) -> tuple[int, bytes, dict[str, str]]:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    # A request's id is random, and must be there.
    assert headers.pop("x-request-id")
    kept_headers = {
        name: value for name, value in headers.items() if name not in ("date", "connection")
    }
    return answer.status, answer.data, kept_headers
