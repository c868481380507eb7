"""The encryption key, changed by an admin."""

from typing import Any

from litestar import Controller, Request, post

from potluck.server.auth.caller import Caller
from potluck.server.encryption import rotation
from potluck.server.services import Parts
from potluck.wire import routes
from potluck.wire.identity import KeyRotation, RotationProgress


class EncryptionController(Controller):
    @post(routes.ROTATE_KEY.template, operation_id="rotate_key", status_code=200)
    async def rotate(
        self, data: KeyRotation, request: Request[Caller, Any, Any], parts: Parts
    ) -> RotationProgress:
        """Makes a new key, or rewrites some of what older ones sealed; call until none remains."""
        if data.new_key:
            return await rotation.begin(parts, request.user.id)
        return await rotation.rewrite(parts, request.user.id)
