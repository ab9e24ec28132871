"""All replicas of one partition, as values, to every row that an audit says about it. No Spark, no Arrow, no file is read."""
