"""The private authority's certificate, for clients that know its fingerprint."""

from litestar import Controller, Response, get

from potluck.model.error import NotFound
from potluck.server.services import Parts
from potluck.wire import routes

_PEM = "text/plain"


class AuthorityController(Controller):
    @get(routes.CA_CERTIFICATE.template, operation_id="ca_certificate", media_type=_PEM)
    async def ca_certificate(self, parts: Parts) -> Response[bytes]:
        """The certificate, as PEM. Whoever fetches it compares it with what the server printed."""
        if parts.authority_pem is None:
            raise NotFound(
                "This server has no certificate authority of its own.",
                "Its certificate, if it has one, is checked as those of other sites are.",
            )
        return Response(parts.authority_pem, media_type=_PEM)
