"""Kafka replica audit: where replicas' logs diverge, what each follower truncates to, what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replica_audit.notebook.warehouse import open_warehouse, triage

__all__ = ["open_warehouse", "triage"]


def __getattr__(name: str) -> object:
    """Import the notebook's libraries only for who asks for them: a broker that is collected from need not have them."""
    if name in __all__:
        try:
            from replica_audit.notebook import warehouse
        except ModuleNotFoundError as error:
            from replica_audit.extras import missing

            if absent := missing(f"replica_audit.{name}", error.name):
                raise absent from None
            raise
        return getattr(warehouse, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
