"""`python -m replica_audit`, where the command `replica-audit` is not on PATH."""

from replica_audit.installed import main

main()
