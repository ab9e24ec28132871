"""What says who leads: cluster-metadata.json, and the brokers' copies of KRaft's metadata log."""
