"""The engines that run the stages of an audit: Spark for whole clusters, this process for a person who waits."""
