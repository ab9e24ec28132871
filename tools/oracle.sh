# What the tests that compare with Kafka need beside the environment; sourced after tools/environment.sh, never run.
#
#   oracle_jars     .cache/oracle-jars/ with the jars of Kafka that tests/oracle/ivy.xml names
#   strimzi_jars    .cache/strimzi-jars/ with the classes of Strimzi's resources that tests/deploy/ivy.xml names
#
# Needs what environment_require_java and environment_packages leave behind: JAVA, and .venv/ with Spark's Ivy.

oracle_jars() { have_jars "$CACHE/oracle-jars" "$ROOT/tests/oracle/ivy.xml" "Kafka's jars for the tests" "a few seconds, 11 MB"; }

strimzi_jars() { have_jars "$CACHE/strimzi-jars" "$ROOT/tests/deploy/ivy.xml" "Strimzi's classes for the tests" "a few seconds, 2 MB"; }
