"""Why a law text could not be converted. Types decide what happens next; texts are for people (``queue.md`` 2.9)."""

from typing import ClassVar

from protocols.failures import Permanent, SupervisorError, Transient


class ConversionError(SupervisorError):
    """A document that is no law text we can convert.

    ``details["reason"]`` is a stable word: ``empty``, ``html``, ``syntax``, ``service_error``, ``wrong_root``,
    ``no_text``, ``incomplete`` (:class:`MalformedLaw`); ``entities``, ``too_deep``, ``too_large``
    (:class:`RefusedLaw`).
    """

    kind: ClassVar[str] = "conversion"

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message, reason=reason)

    @property
    def reason(self) -> str:
        """The stable word of ``details["reason"]``."""
        return str(self.details["reason"])


class MalformedLaw(ConversionError, Transient):
    """Not XML, cut off, an error page, or another kind of document: a new download may bring the right one."""

    kind = "malformed_law"


class RefusedLaw(ConversionError, Permanent):
    """XML that is refused on principle (D36): it would be refused again, so a person must look at it."""

    kind = "refused_law"
