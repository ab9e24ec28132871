# The environment that spark-submit.sh and tests/run.sh share; sourced, never run. Bash 3.2 will do.
#
#   environment_safe_path               no Python that is started imports from the folder that it is started in
#   environment_own_folders             .venv/ and .cache/ are nobody else's, or the end
#   environment_require_java            a Java runtime that Spark can use, or the end
#   environment_packages EXTRAS         .venv/ with the pinned packages and this project; EXTRAS: "" or "test,lint"
#   environment_jars                    .cache/jars/ with the Delta Lake jars
#   environment_s3_jars                 .cache/s3-jars/ with what Spark needs for a warehouse in S3
#   environment_classes                 an archive of the JVM's loaded classes in .cache/, which shortens every later start
#   environment_spark_flags [NAME]      SPARK_FLAGS: what spark-submit is given for every job
#
# The first two starts at once must not collide, and one killed half-way must not count: a lock is held while anything is
# made, and what says "made" comes last (a stamp in .venv/, a rename for .cache/jars/).

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
VENV="$ROOT/.venv"
CACHE="$ROOT/.cache"
JARS="$CACHE/jars"
S3_JARS="$CACHE/s3-jars"
STAMP="$VENV/.replica-audit-installed"
EXECUTOR_PACKAGES="$CACHE/executor-packages.tar.gz"
REQUIREMENTS="$ROOT/conf/requirements"
JAVA_MINIMUM=17
USAGE_ERROR=2

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "error: $1"
    shift
    if [ $# -gt 0 ]; then printf '  %s\n' "$@" >&2; fi
    exit "$USAGE_ERROR"
}

# A folder that somebody else wrote may hold a json.py: neither the working directory (an empty or relative entry of PYTHONPATH
# is one, too) nor that of a script is searched for modules, in the launcher, the driver and its workers.
environment_safe_path() {
    local entry safe="" entries=()
    export PYTHONSAFEPATH=1
    IFS=: read -r -a entries <<<"${PYTHONPATH:-}" || true
    for entry in ${entries[@]+"${entries[@]}"}; do
        case "$entry" in /*) safe="${safe:+$safe:}$entry" ;; esac
    done
    if [ -n "$safe" ]; then export PYTHONPATH="$safe"; else unset PYTHONPATH; fi
}

# What lies in .venv/ and .cache/ is run with this user's rights: neither may belong to somebody else, or be a link that they made, but to
# root and to whoever owns the checkout.
environment_own_folders() {
    local owner name trusted=""
    while read -r _ _ owner name; do
        if [ -z "$trusted" ]; then trusted="$owner"; fi # of the checkout, which is listed first
        case "$owner" in
        "$EUID" | 0 | "$trusted") ;;
        *)
            name="${name#* ./}"
            fail "$ROOT/${name%% *} belongs to another user (uid $owner): what is in it is not run" \
                "Remove it, if you know what it is, or use a checkout that only you can write to."
            ;;
        esac
    done < <(cd "$ROOT" && ls -ldn ./ ./.cache ./.cache/ ./.venv ./.venv/ 2>/dev/null)
}

# ---------------------------------------------------------------------------------------------------------------- Java

# The major version of the given java, or nothing. The runtime's release file says it without starting a JVM.
java_major() {
    local java line version=""
    java="$(readlink -f "$1" 2>/dev/null)" || java="$1"
    if [ -r "${java%/*}/../release" ]; then
        while IFS= read -r line; do
            case "$line" in JAVA_VERSION=*) version="${line#*=}" ;; esac
        done <"${java%/*}/../release"
    fi
    if [ -z "$version" ]; then
        version="$("$1" -version 2>&1 | sed -n 's/.* version \("[^"]*"\).*/\1/p' | head -n 1)" || version=""
    fi
    version="${version//\"/}"
    version="${version#1.}" # Java 8 called itself 1.8
    printf '%s' "${version%%[!0-9]*}"
}

environment_require_java() {
    local java major found=""
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" "$(type -P java || true)"; do
        [ -n "$java" ] || continue
        major=""
        if [ -x "$java" ]; then major="$(java_major "$java")"; fi
        if [ -n "$major" ] && [ "$major" -ge "$JAVA_MINIMUM" ]; then
            # Spark looks at JAVA_HOME first, so one that does not serve must not stay.
            case "$java" in "${JAVA_HOME:-/}/bin/java") ;; *) unset JAVA_HOME ;; esac
            JAVA="$java"
            return
        fi
        if [ -n "$major" ]; then
            found="${found:+$found; }Java $major ($java)"
        elif [ -x "$java" ]; then
            found="${found:+$found; }$java, which does not print its version"
        else
            found="${found:+$found; }JAVA_HOME=$JAVA_HOME, which has no bin/java"
        fi
    done
    fail "a Java $JAVA_MINIMUM or newer runtime is needed; found: ${found:-none (JAVA_HOME is not set, no java on PATH)}" \
        "Install a Java 17 or 21 runtime, for example" \
        "  Debian, Ubuntu:  apt-get install openjdk-17-jre-headless   (or openjdk-21-jre-headless)" \
        "  Fedora, RHEL:    dnf install java-21-openjdk-headless" \
        "or set JAVA_HOME to one. Neither a compiler (javac) nor Maven is needed."
}

# -------------------------------------------------------------------------------------------------------------- Python

# Sets PYTHON to an interpreter that can make the virtual environment.
find_python() {
    local name found="" version
    for name in python3.11 python3.12 python3.13 python3.14 python3 python; do
        name="$(type -P "$name")" || continue
        # Shims of version managers exist for versions that are not installed: only running one tells.
        version="$("$name" -I -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" || continue
        if ! "$name" -I -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
            found="${found:+$found; }Python $version ($name)"
        elif ! "$name" -I -c 'import ensurepip, fcntl, venv' 2>/dev/null; then
            found="${found:+$found; }Python $version ($name), without its venv module (Debian, Ubuntu: apt-get install python$version-venv)"
        else
            PYTHON="$name"
            return
        fi
    done
    fail "Python 3.11 or newer is needed; found: ${found:-none on PATH}" \
        "Install one, for example  apt-get install python3 python3-venv"
}

# --------------------------------------------------------------------------------------------------------------- Setup

# Runs a function with the lock held and every other start waiting.
locked() {
    find_python
    if ! mkdir -p "$CACHE" 2>/dev/null || ! touch "$CACHE/setup.lock" 2>/dev/null; then
        fail "cannot write to $CACHE, where the environment has to be set up first" "start it once as the user who owns $ROOT"
    fi
    exec 9>"$CACHE/setup.lock"
    # A lock on an open file belongs to this shell as much as to the Python that asks for it, and ends with this shell.
    if ! "$PYTHON" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)' 2>/dev/null; then
        say "setting up: waiting for another start that is setting up ..."
        "$PYTHON" -I -c 'import fcntl; fcntl.flock(9, fcntl.LOCK_EX)'
    fi
    trap 'say "setting up: interrupted; the next start begins anew"; exit 130' INT
    "$@"
    trap - INT
    exec 9>&-
}

# What .venv/ is made from: the installed parts of setup.cfg, each package's version and hashes, and the folder, whose path its scripts hold.
packages_fingerprint() {
    { printf '%s\n' "$ROOT" && awk '/^\[/ { on = /^\[(metadata|options)/ } on' "$ROOT/setup.cfg" && cat "$REQUIREMENTS"/*.txt; } | cksum
}

# True if .venv/ is whole, up to date and has the extras.
packages_ready() {
    local fingerprint="" extras=""
    [ -x "$VENV/bin/python" ] && [ -r "$STAMP" ] || return 1
    { read -r fingerprint && read -r extras; } <"$STAMP" || return 1
    [ "$fingerprint" = "$PACKAGES" ] || return 1
    # The test environment serves for running, too.
    [ -z "$1" ] || [ "$extras" = "$1" ]
}

environment_packages() {
    environment_own_folders
    PACKAGES="$(packages_fingerprint)"
    packages_ready "$1" && return
    if [ -L "$VENV" ] && compgen -G "$VENV/*" >/dev/null; then
        fail ".venv is a link to $(readlink "$VENV"), which is not the environment of this checkout: setting up would empty it" \
            "Remove the link (rm $VENV), or empty the folder."
    fi
    locked make_packages "$1"
}

make_packages() {
    local before=""
    packages_ready "$1" && return # made by the start that we waited for
    if packages_ready ""; then
        before="$(cat "$STAMP")"
    else
        say "setting up: creating .venv with $PYTHON ..."
        rm -f "$STAMP"
        "$PYTHON" -I -m venv --clear "$VENV" >"$CACHE/setup.log" 2>&1 || packages_failed "the virtual environment could not be created"
    fi
    rm -f "$STAMP" # a kill from here on leaves a .venv/ that does not count
    say "setting up: installing packages (1 to 3 min, about 500 MB) ..."
    # setuptools first: what comes as source is built with the pinned one, not with the newest
    local packages="$REQUIREMENTS/run.txt"
    if [ -n "$1" ]; then packages="$REQUIREMENTS/extras.txt"; fi
    if ! { pip_install --require-hashes --requirement "$REQUIREMENTS/build.txt" &&
        pip_install --require-hashes --no-build-isolation --requirement "$packages" &&
        pip_install --no-deps --no-build-isolation --editable "$ROOT"; }; then
        if grep -q 'DO NOT MATCH THE HASHES' "$CACHE/setup.log"; then
            packages_failed "a package is not the one that this version was tested with, and was not installed" "$before" \
                "$(grep -E '^ +([^ ]+ from |Got )' "$CACHE/setup.log")" \
                "The package index, or a proxy on the way, gave another file or cut it short. Start again; if it stays so, ask who runs that."
        fi
        packages_failed "pip could not install the packages" "$before" \
            "A package index must be reachable; pip's own settings (PIP_INDEX_URL, PIP_PROXY ...) are honoured."
    fi
    printf '%s\n' "$PACKAGES" "$1" >"$STAMP.new"
    mv "$STAMP.new" "$STAMP"
}

# pip undoes what it could not finish: what was whole before still is. Else nothing is left behind.
packages_failed() {
    if [ -n "${2:-}" ]; then printf '%s\n\n' "$2" >"$STAMP"; else rm -rf "$VENV"; fi
    setup_failed "$1" "${@:3}"
}

# -I: a PYTHONPATH of the user's must not pass for installed packages.
pip_install() {
    PIP_USER=0 PIP_REQUIRE_HASHES=0 "$VENV/bin/python" -I -m pip install --quiet --no-input --disable-pip-version-check \
        "$@" >"$CACHE/setup.log" 2>&1
}

setup_failed() {
    grep -v '^[[:space:].]*$' "$CACHE/setup.log" | tail -n 5 >&2 || true
    fail "setting up: $1 (whole output: .cache/setup.log)" "${@:2}"
}

DELTA_IVY="$ROOT/conf/ivy.xml"
S3_IVY="$ROOT/conf/ivy-s3.xml"

# The names of the jars that an Ivy file names.
jar_names() { sed -n 's/^ *<dependency .* name="\([^"]*\)" rev="\([^"]*\)".*/\1-\2.jar/p' "${1:-$DELTA_IVY}"; }

# jars_seen FOLDER LIST: what jars look like without being read: the SHA-256 that they were compared with, their names and sizes.
jars_seen() { (cd "$1" && printf '%s\n' "$(<"$2")" && wc -c -- *.jar) 2>/dev/null; }

# jars_ready FOLDER IVY_FILE, beside which a list of the same name has their SHA-256: whether all of them are there and look as they did when their SHA-256 were compared.
jars_ready() {
    local record="$1/.compared" jar
    [ -r "$record" ] || return 1
    for jar in "$1"/*.jar; do
        [ ! "$jar" -nt "$record" ] || return 1
    done
    [ "$(<"$record")" = "$(jars_seen "$1" "${2%.xml}.sha256")" ]
}

# jars_compared FOLDER IVY_FILE: compare all bytes, and leave a record of it; prints what differs.
jars_compared() {
    "$PYTHON" -I "$ROOT/tools/jar_checks.py" "$1" "${2%.xml}.sha256" || return 1
    jars_seen "$1" "${2%.xml}.sha256" >"$1/.compared.new" && mv "$1/.compared.new" "$1/.compared"
}

environment_jars() { have_jars "$JARS" "$DELTA_IVY" "the Delta Lake jars" "a few seconds, 13 MB"; }

environment_s3_jars() { have_jars "$S3_JARS" "$S3_IVY" "Hadoop's connector to S3" "a few seconds, 12 MB"; }

# in_s3 ARGUMENTS...: whether a job's --warehouse is in S3.
in_s3() {
    local argument before=""
    for argument in "$@"; do
        case "$before$argument" in --warehouse=s3a://* | --warehouse\ s3a://*) return 0 ;; esac
        before=""
        if [ "$argument" = --warehouse ]; then before="--warehouse "; fi
    done
    return 1
}

# have_jars FOLDER IVY_FILE WHAT HOW_MUCH: fetch what is not there, or is not what it should be.
have_jars() { jars_ready "$1" "$2" || locked make_jars "$@"; }

make_jars() {
    local folder="$1" ivy="$2" what="$3" much="$4" spark made="$1.new" work="$CACHE/ivy" wrong mirror=()
    jars_ready "$folder" "$ivy" && return # made by the start that we waited for
    if [ -d "$folder" ]; then
        wrong="$(jars_compared "$folder" "$ivy")" && return
        say "setting up: $folder is not as it was made:"
        printf '  %s\n' "$wrong" >&2
    fi
    rm -rf "$made" "$work"
    spark=("$VENV"/lib/python3*/site-packages/pyspark)
    if [ -n "${REPLICA_AUDIT_MAVEN_MIRROR:-}" ]; then
        mirror=("-Dreplica.audit.resolver=mirror" "-Dreplica.audit.mirror=$REPLICA_AUDIT_MAVEN_MIRROR")
    fi
    say "setting up: fetching $what ($much) ..."
    # Spark brings Ivy along; run by itself it needs no Spark session and no cache outside this folder.
    if ! "$JAVA" "-Divy.default.ivy.user.dir=$work" ${mirror[@]+"${mirror[@]}"} -cp "${spark[0]}/jars/*" org.apache.ivy.Main -warn \
        -settings "$ROOT/conf/ivysettings.xml" -ivy "$ivy" -cache "$work/cache" \
        -retrieve "$made/[artifact]-[revision].[ext]" >"$CACHE/setup.log" 2>&1; then
        rm -rf "$made" "$work"
        setup_failed "$what could not be fetched" \
            "Maven Central must be reachable, or REPLICA_AUDIT_MAVEN_MIRROR must hold the address of a mirror of it." \
            "Behind a proxy: JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=HOST -Dhttps.proxyPort=PORT'"
    fi
    if ! wrong="$(jars_compared "$made" "$ivy")"; then
        rm -rf "$made" "$work"
        fail "setting up: $what are not those that this version was tested with, and are not used:" "$wrong" \
            "Whatever was asked for them (${REPLICA_AUDIT_MAVEN_MIRROR:-Maven Central}, or a proxy on the way) gave others, or cut them short." \
            "Start again; if it stays so, ask who runs that, or set REPLICA_AUDIT_MAVEN_MIRROR to another."
    fi
    rm -rf "$folder" "$work"
    mv "$made" "$folder"
}

# ----------------------------------------------------------------------------------------------------- Class archive

# Most audits are short: the second compiler and a parallel collector cost them more than they give. What takes long, reading
# bytes, is not done by the JVM.
JVM_FLAGS="-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"

CLASSES="$CACHE/classes.jsa"

# What the archive depends on: the runtime, the jars, the packages and the folder.
classes_fingerprint() {
    { printf '%s\n' "$ROOT" "$JVM_FLAGS" "$JAVA"; java_major "$JAVA"; jar_names; cat "$STAMP"; } 2>/dev/null | cksum
}

# Without an archive a job only starts more slowly, so what keeps it from being made stops nothing, and is tried once.
environment_classes() {
    classes_ready || [ ! -w "$CACHE" ] || locked make_classes
}

# The JVM uses no archive of jars that were written again, even the same ones.
classes_ready() {
    [ "$(classes_fingerprint)" = "$(cat "$CLASSES.made-for" 2>/dev/null)" ] && [ ! "$STAMP" -nt "$CLASSES.made-for" ]
}

make_classes() {
    local fingerprint work="$CACHE/warm-up"
    classes_ready && return # made by the start that we waited for
    fingerprint="$(classes_fingerprint)"
    say "setting up: archiving the JVM's classes, so that every job starts faster (half a minute, 200 MB) ..."
    rm -rf "$CLASSES" "$CLASSES.made-for" "$CLASSES.new" "$work"
    # A small audit loads the classes that audits need; the JVM archives what it loaded when it ends. Exit code 1: there are findings.
    (
        environment_spark_variables
        environment_spark_flags warm-up "$JVM_FLAGS -XX:ArchiveClassesAtExit=\"$CLASSES.new\" -Xlog:cds*=off"
        "$VENV/bin/spark-submit" "${SPARK_FLAGS[@]}" --master 'local[1]' "$ROOT/jobs/audit.py" --what-if-leaders \
            --input "$ROOT/tests/data/sample/elr-election" --warehouse "$work" </dev/null
    ) >"$CACHE/setup.log" 2>&1 || true
    if [ -s "$CLASSES.new" ]; then
        mv "$CLASSES.new" "$CLASSES"
    else
        say "setting up: the classes could not be archived (whole output: .cache/setup.log); jobs run all the same, and start more slowly"
    fi
    printf '%s\n' "$fingerprint" >"$CLASSES.made-for"
    rm -rf "$work"
}

# --------------------------------------------------------------------------------------------------------------- Spark

# environment_spark_flags [NAME [JVM_FLAGS]]; with NEEDS_S3=true also what a warehouse in S3 takes
environment_spark_flags() {
    local master jvm="${2:-$JVM_FLAGS}"
    # A JVM that the archive does not fit ignores it; it need not say so on the terminal.
    if [ $# -lt 2 ] && [ -s "$CLASSES" ]; then jvm="$jvm -XX:SharedArchiveFile=\"$CLASSES\" -Xlog:cds*=off"; fi
    master="$(spark_master)"
    SPARK_FLAGS=(
        --master "$master"
        --name "${1:-replica-audit}"
        --properties-file "$ROOT/conf/spark-defaults.conf"
        --driver-memory "${SPARK_DRIVER_MEMORY:-2g}"
        # "default" options are put before those of the user's instead of being replaced by them.
        --conf "spark.driver.defaultJavaOptions=$jvm -Dlog4j2.configurationFile=\"$ROOT/conf/log4j2.properties\""
        --conf "spark.sql.warehouse.dir=$CACHE/spark-warehouse"
    )
    case "$master" in
    local | local\[*)
        # One JVM: on its class path the jars need no copying, and no address of this machine's has to resolve.
        SPARK_FLAGS+=(
            --driver-class-path "$JARS/*$(${NEEDS_S3:-false} && printf ':%s/*' "$S3_JARS" || true)"
            --conf spark.driver.host=127.0.0.1
            --conf spark.driver.bindAddress=127.0.0.1
        )
        ;;
    *)
        local jar jars=""
        for jar in $(jar_names); do jars="${jars:+$jars,}$JARS/$jar"; done
        if ${NEEDS_S3:-false}; then for jar in $(jar_names "$S3_IVY"); do jars="$jars,$S3_JARS/$jar"; done; fi
        SPARK_FLAGS+=(--jars "$jars" --py-files "$CACHE/replica_audit.zip" --conf "spark.pyspark.driver.python=$VENV/bin/python")
        # Nothing may depend on where this folder is: the executors' machines need not have it.
        if [ -n "${REPLICA_AUDIT_EXECUTOR_PYTHON:-}" ]; then
            SPARK_FLAGS+=(--conf "spark.pyspark.python=$REPLICA_AUDIT_EXECUTOR_PYTHON")
        else
            SPARK_FLAGS+=(
                --archives "$EXECUTOR_PACKAGES#packages"
                --conf spark.executorEnv.PYTHONPATH=packages
                --conf "spark.pyspark.python=$(python_of_the_packages)"
            )
        fi
        ;;
    esac
}

# Where Spark runs: SPARK_MASTER, else what conf/spark-defaults.conf says, else here.
spark_master() {
    local master="${SPARK_MASTER:-}"
    if [ -z "$master" ]; then master="$(awk '$1 == "spark.master" { print $2 }' "$ROOT/conf/spark-defaults.conf")"; fi
    printf '%s' "${master:-local[*]}"
}

# The interpreter that can use the packages of .venv/, by name: python3.11.
python_of_the_packages() {
    local library=("$VENV"/lib/python3.*)
    library="${library[0]##*/}"
    printf '%s' "${library/%\*/}"
}

# What travels to the executors of a cluster: the package, and the packages that it needs unless their Python has them.
environment_for_executors() {
    case "$(spark_master)" in local | local\[*) return ;; esac
    local made="$CACHE/replica_audit.$$.zip"
    (cd "$ROOT/lib" && "$VENV/bin/python" -I -m zipfile -c "$made" replica_audit) || fail "cannot write $made"
    mv "$made" "$CACHE/replica_audit.zip"
    if [ -n "${REPLICA_AUDIT_EXECUTOR_PYTHON:-}" ] || [ "$EXECUTOR_PACKAGES" -nt "$STAMP" ]; then return; fi
    say "setting up: packing the Python packages for the executors (10 s, 160 MB) ..."
    made="$EXECUTOR_PACKAGES.$$"
    "$VENV/bin/python" -I "$ROOT/tools/executor_packages.py" "$made" || fail "cannot write $made"
    mv "$made" "$EXECUTOR_PACKAGES"
}

# Only this project's Spark and Python count, whatever else the user's shell is set up for.
environment_spark_variables() {
    local spark=("$VENV"/lib/python3*/site-packages/pyspark)
    export SPARK_HOME="${spark[0]}" PYSPARK_PYTHON="$VENV/bin/python" PATH="$VENV/bin:$PATH"
    export SPARK_LAUNCHER_OPTS="${SPARK_LAUNCHER_OPTS:-} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC" # of the JVM that only builds the command
    # Else Spark does not start where this machine's name leads nowhere.
    case "$(spark_master)" in local | local\[*) export SPARK_LOCAL_IP="${SPARK_LOCAL_IP:-127.0.0.1}" ;; esac
    unset PYSPARK_DRIVER_PYTHON PYSPARK_DRIVER_PYTHON_OPTS PYSPARK_SUBMIT_ARGS SPARK_REMOTE SPARK_API_MODE SPARK_CONNECT_MODE_ENABLED PYTHONHOME
}
