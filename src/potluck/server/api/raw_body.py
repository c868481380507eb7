"""How the document tells of a body that is plain bytes, which no handler takes as a value."""

from dataclasses import dataclass

from litestar.openapi.spec import OpenAPIMediaType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat, OpenAPIType


@dataclass
class TakesOctets(Operation):
    def __post_init__(self) -> None:
        """The framework found none, as no handler names it."""
        schema = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
        content = {"application/octet-stream": OpenAPIMediaType(schema)}
        self.request_body = RequestBody(content, required=True)
