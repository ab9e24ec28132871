"""From findings to a plan: steps in order of safety, and files that Kafka's own tools take. Nothing is executed."""
