"""One replica: its epoch table, its log as a broker loads it, and the history that both tell."""
