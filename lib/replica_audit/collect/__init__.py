"""`collect`: what an audit needs of a broker's log directories, taken on the broker itself, gently, and while it runs."""

from replica_audit.collect.request import CollectRequest, CollectResult
from replica_audit.collect.session import collect

__all__ = ["CollectRequest", "CollectResult", "collect"]
