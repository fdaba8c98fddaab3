"""Which thread this is. Never compiled: ``_thread.pxd`` has the C body, which makes no Python integer."""

from __future__ import annotations

from threading import get_ident as ident

__all__ = ["ident"]
