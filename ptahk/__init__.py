"""ptahk changes production databases, and accounts for it. This module imports nothing."""

__version__ = "0.1.0"
