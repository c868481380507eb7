"""The consumer's side: submit tasks, follow them, fetch what they wrote.

These names are the public interface; a test pins them.
"""

from potluck.consumer.client import Potluck
from potluck.consumer.http.transport import Patience
from potluck.consumer.result.result import Result
from potluck.consumer.tasks import Follow

__all__ = ["Follow", "Patience", "Potluck", "Result"]
