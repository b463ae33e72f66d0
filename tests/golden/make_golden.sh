#!/usr/bin/env bash
# Brings Spark 3.5 and the Hudi bundle, then runs make_golden.py with the given arguments.
# Needs python3, Java 17 and mvn; the environment stays in var/hudi-env for the next run.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
env_dir="$here/../../var/hudi-env"
version="1.2.0"
name="hudi-spark3.5-bundle_2.12"
jar="${HUDI_BUNDLE_JAR:-$env_dir/$name-$version.jar}"

if [ ! -x "$env_dir/bin/spark-submit" ]; then
    mkdir -p "$(dirname "$env_dir")"
    python3 -m venv "$env_dir"
    "$env_dir/bin/pip" install --quiet 'pyspark==3.5.*'
fi
if [ ! -f "$jar" ]; then
    artifact="org.apache.hudi:$name:$version"
    mvn -q -B dependency:get -Dtransitive=false -Dartifact="$artifact"
    mvn -q -B dependency:copy -Dartifact="$artifact" -DoutputDirectory="$env_dir"
fi
exec "$env_dir/bin/python" "$here/make_golden.py" --jar "$jar" "$@"
