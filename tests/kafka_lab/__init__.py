"""A laboratory of real Kafka brokers for the tests, and by hand: `python -m tests.kafka_lab --help`.

KRaft with a controller of its own, brokers on free loopback ports, everything in one temporary directory. Processes end with the one that
started them, whatever ends that.
"""
