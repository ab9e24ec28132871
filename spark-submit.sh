#!/usr/bin/env bash
# Runs a job of jobs/ with this project's own Python, Spark and Delta Lake; makes them ready on first use.
set -euo pipefail

# shellcheck source=tools/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/tools/environment.sh"
environment_safe_path

usage() {
    cat <<'TEXT'
usage: ./spark-submit.sh [--dry-run] [--master URL] JOB [options of the job]
       ./spark-submit.sh JOB --help        what a job does and its options
       ./spark-submit.sh                   set everything up, list the jobs

Runs jobs/JOB.py. The first start creates .venv/ (Python packages) and .cache/ (jars) beside this
script, which takes a few minutes; later ones start at once. Needed on the machine: Python 3.11+
and a Java 17+ runtime.

  --dry-run              print the command that would run, shell-quoted, and exit; before JOB, or after
                         one that has no --dry-run of its own, as maintain has
  --master URL           where Spark runs, such as spark://HOST:7077; before JOB (docs/deployment.md)

environment:
  SPARK_MASTER           the same as --master (default: spark.master in conf/spark-defaults.conf, else
                         local[*], this machine)
  REPLICA_AUDIT_EXECUTOR_PYTHON   the executors' Python, if it has the packages already
  SPARK_SUBMIT_ARGS      more flags for spark-submit, separated by blanks
  SPARK_DRIVER_MEMORY    memory of the driver, and so of everything under local[*] (default: 2g)
  JAVA_HOME              the Java runtime (default: the java on PATH)
  REPLICA_AUDIT_MAVEN_MIRROR   where to fetch the jars from instead of Maven Central

TEXT
    list_jobs
}

# One line for each job: its name and the first line of its docstring.
list_jobs() {
    printf 'jobs:\n'
    awk 'FNR == 1 { name = FILENAME; sub(/.*\//, "", name); sub(/\.py$/, "", name); gsub(/"""/, ""); printf "  %-18s %s\n", name, $0 }' "$ROOT"/jobs/*.py
}

wrong_usage() {
    say "error: $1"
    list_jobs >&2
    say "see ./spark-submit.sh --help"
    exit "$USAGE_ERROR"
}

# The driver is here: what it says, writes and ends with would be lost elsewhere.
refuse_cluster_mode() {
    say "error: only deploy mode client: elsewhere in the cluster the driver's exit code, --json and --html would be lost; leave" \
        "--deploy-mode out, or run this command in a container there (docs/deployment.md)"
    exit "$USAGE_ERROR"
}

# Whether a job has an option --dry-run of its own: what comes after its name is then the job's.
takes_dry_run() {
    [ -n "$1" ] && grep -qs '^# takes: --dry-run$' "$ROOT/jobs/$1.py"
}

# Words as a shell and Python's shlex read them.
quoted() {
    local word quote="'" escaped="'\\''" line=""
    for word in "$@"; do line="$line'${word//$quote/$escaped}' "; done
    printf '%s' "${line% }"
}

job=""
dry_run=false
arguments=()
literal=false
wants_master=false
for argument in "$@"; do
    if $wants_master; then
        wants_master=false
        SPARK_MASTER="$argument"
    elif [ "$argument" = --dry-run ] && ! $literal && ! takes_dry_run "$job"; then
        dry_run=true
    elif [ -n "$job" ]; then
        if [ "$argument" = -- ]; then literal=true; fi
        arguments+=("$argument")
    else
        case "$argument" in
        -h | --help) usage && exit 0 ;;
        --master) wants_master=true ;;
        --master=*) SPARK_MASTER="${argument#*=}" ;;
        --deploy-mode*) refuse_cluster_mode ;;
        -*) wrong_usage "unknown option $argument; a job's options come after its name" ;;
        *) job="$argument" ;;
        esac
    fi
done

if $wants_master; then wrong_usage "--master needs a URL"; fi
if [ -z "$job" ]; then
    if $dry_run; then wrong_usage "--dry-run needs a job"; fi
    environment_require_java
    environment_packages ""
    environment_jars
    environment_classes
    printf 'ready: ./spark-submit.sh JOB [options]\n'
    list_jobs
    exit 0
fi

file="$ROOT/jobs/$job.py"
case "$job" in *[!a-z0-9_]*) wrong_usage "no job named $job" ;; esac
[ -f "$file" ] || wrong_usage "no job named $job"

needs_spark=true
if grep -q '^# runs-on: driver' "$file"; then needs_spark=false; fi
for argument in ${arguments[@]+"${arguments[@]}"}; do
    # Of a job that runs without Spark unless it is asked to.
    if [ "$argument" = --spark ] && grep -q '^# takes: --spark$' "$file"; then needs_spark=true; fi
done
for argument in ${arguments[@]+"${arguments[@]}"}; do
    # Neither help nor what a run would cost must wait for a JVM, nor what is asked to be done without Spark.
    case "$argument" in -h | --help | --cost | --local) needs_spark=false ;; esac
done

NEEDS_S3=false
if $needs_spark && in_s3 ${arguments[@]+"${arguments[@]}"}; then NEEDS_S3=true; fi

if $needs_spark && ! $dry_run; then
    environment_require_java
    environment_packages ""
    environment_jars
    if $NEEDS_S3; then environment_s3_jars; fi
    environment_classes
fi
if $needs_spark; then
    environment_spark_flags "replica-audit $job"
    # Word splitting is the point of SPARK_SUBMIT_ARGS; file name patterns in it are not.
    set -f
    # shellcheck disable=SC2206
    more=(${SPARK_SUBMIT_ARGS:-})
    set +f
    case " ${more[*]-} " in *" --deploy-mode cluster "* | *" --deploy-mode=cluster "* | *spark.submit.deployMode=cluster*) refuse_cluster_mode ;; esac
    if grep -Eqs '^[[:space:]]*spark\.submit\.deployMode[[:space:]:=]+cluster' "$ROOT/conf/spark-defaults.conf"; then refuse_cluster_mode; fi
    environment_spark_variables
    # The job starts the JVM: signals reach who can say what becomes of the work, and a JVM that is killed is told by who waits for it.
    export PYSPARK_SUBMIT_ARGS
    PYSPARK_SUBMIT_ARGS="$(quoted "${SPARK_FLAGS[@]}" ${more[@]+"${more[@]}"} pyspark-shell)"
fi
command=("$VENV/bin/python" "$file" ${arguments[@]+"${arguments[@]}"})

if $dry_run; then
    if $needs_spark; then
        for name in SPARK_HOME PYSPARK_PYTHON PYSPARK_SUBMIT_ARGS; do printf '%s=%q ' "$name" "${!name}"; done
    fi
    line="$(printf '%q ' "${command[@]}")"
    printf '%s\n' "${line% }"
    exit 0
fi

if $needs_spark; then environment_for_executors; else environment_packages ""; fi
exec "${command[@]}"
