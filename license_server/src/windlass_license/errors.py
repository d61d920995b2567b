"""Every error that this distribution raises on purpose.

    WindlassLicenseError
    ├── ListingError        the text given as `nvidia-smi -L` output cannot be licensed
    ├── TermsError          the terms of a license make no sense
    ├── KeyFileError        a key file cannot be read or is of the wrong kind
    ├── InputFileError      a file of the command line cannot be read or written
    ├── LicenseFileError    a license file is refused (`reason` says which rule)
    ├── SettingsError       the server cannot start with what it was given
    ├── UnknownCallerError  the request does not show which pod asks
    └── NotNowError         the request may succeed a little later (`reason` says why); nothing was changed
        ├── StandByError    this replica is not the active one
        ├── ReviewError     the API server cannot be asked which pod asks
        └── StoreError      the disk does not take what must be kept

The message is one sentence for the person at the other end: what, where, what to do.
"""

from enum import StrEnum


class WindlassLicenseError(Exception):
    """Base of all errors whose message is meant for the user."""


class ListingError(WindlassLicenseError):
    """The GPU listing holds a line that is not `nvidia-smi -L` output, or no GPU at all."""


class TermsError(WindlassLicenseError):
    """Customer, expiry or a number of a license to issue makes no sense."""


class KeyFileError(WindlassLicenseError):
    """A PEM text is not the Ed25519 key that was expected."""


class InputFileError(WindlassLicenseError):
    """A file or directory that the command line names cannot be read or written."""


class SettingsError(WindlassLicenseError):
    """A setting of the server is missing or makes no sense."""


class FileRefusal(StrEnum):
    """Why a license file is refused; each has its own sentence."""

    EMPTY = "Empty"
    NOT_A_LICENSE = "NotALicense"
    TRUNCATED = "Truncated"
    UNKNOWN_KEY = "UnknownKey"
    NO_KEY = "NoKey"
    TAMPERED = "Tampered"
    NOT_CANONICAL = "NotCanonical"
    EXPIRED = "Expired"
    OLDER = "Older"
    TOO_LARGE = "TooLarge"
    NO_FILE = "NoFile"


class LicenseFileError(WindlassLicenseError):
    """A license file is refused; nothing changed because of it."""

    def __init__(self, reason: FileRefusal, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class UnknownCallerError(WindlassLicenseError):
    """The request's token is missing or refused; answered as 401."""

    reason = "Unauthorized"


class NotNowError(WindlassLicenseError):
    """The request was not decided: ask again; answered as 503."""

    reason = "NotNow"


class StandByError(NotNowError):
    """Another replica of the server is active, or this one is not yet or no longer."""

    reason = "StandBy"


class ReviewError(NotNowError):
    """The token of the request could not be reviewed; it may be good."""

    reason = "ReviewFailed"


class StoreError(NotNowError):
    """What was asked for could not be made durable, so it was not done."""

    reason = "StoreFailed"
