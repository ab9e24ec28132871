# What the tests that compare with Kafka need beside the environment; sourced after tools/environment.sh, never run.
#
#   oracle_jars     .cache/oracle-jars/ with the jars of Kafka that tests/oracle/ivy.xml names
#
# Needs what environment_require_java and environment_packages leave behind: JAVA, and .venv/ with Spark's Ivy.

ORACLE_JARS="$CACHE/oracle-jars"

oracle_jar_names() { sed -n 's/^ *<dependency .* name="\([^"]*\)" rev="\([^"]*\)".*/\1-\2.jar/p' "$ROOT/tests/oracle/ivy.xml"; }

oracle_jars_ready() {
    local jar
    for jar in $(oracle_jar_names); do
        [ -s "$1/$jar" ] || return 1
    done
}

oracle_jars() { oracle_jars_ready "$ORACLE_JARS" || locked make_oracle_jars; }

make_oracle_jars() {
    local spark made="$ORACLE_JARS.new" work="$CACHE/oracle-ivy" mirror=()
    oracle_jars_ready "$ORACLE_JARS" && return # made by the start that we waited for
    rm -rf "$made" "$work"
    spark=("$VENV"/lib/python3*/site-packages/pyspark)
    if [ -n "${REPLICA_AUDIT_MAVEN_MIRROR:-}" ]; then
        mirror=("-Dreplica.audit.resolver=mirror" "-Dreplica.audit.mirror=$REPLICA_AUDIT_MAVEN_MIRROR")
    fi
    say "setting up: fetching Kafka's jars for the tests (a few seconds, 11 MB) ..."
    if ! "$JAVA" "-Divy.default.ivy.user.dir=$work" ${mirror[@]+"${mirror[@]}"} -cp "${spark[0]}/jars/*" org.apache.ivy.Main -warn \
        -settings "$ROOT/conf/ivysettings.xml" -ivy "$ROOT/tests/oracle/ivy.xml" -cache "$work/cache" \
        -retrieve "$made/[artifact]-[revision].[ext]" >"$CACHE/setup.log" 2>&1 || ! oracle_jars_ready "$made"; then
        rm -rf "$made" "$work"
        setup_failed "Kafka's jars, which the tests compare with, could not be fetched" \
            "Maven Central must be reachable, or REPLICA_AUDIT_MAVEN_MIRROR must hold the address of a mirror of it." \
            "Behind a proxy: JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'"
    fi
    rm -rf "$ORACLE_JARS" "$work"
    mv "$made" "$ORACLE_JARS"
}
