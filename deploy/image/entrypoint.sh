#!/usr/bin/env bash
# What runs in a container of the target `full`: a command of replica-audit, or the role that Spark on Kubernetes gives the container,
# with the variables that it sets.
set -euo pipefail

case "${1:-}" in
driver)
    shift
    exec spark-submit --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
    ;;
executor)
    options=()
    for name in $(compgen -e | grep '^SPARK_JAVA_OPT_' | sort -t _ -k 4 -n); do options+=("${!name}"); done
    exec java ${options[@]+"${options[@]}"} "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" \
        --resourceProfileId "${SPARK_RESOURCE_PROFILE_ID:-0}"
    ;;
*) exec replica-audit "$@" ;;
esac
