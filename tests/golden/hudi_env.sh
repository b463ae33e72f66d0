#!/usr/bin/env bash
# Sets Apache Hudi up in var/hudi-env (Spark 3.5 and the Hudi bundle), once, and prints the path of the bundle's jar.
# Needs python3, Java 17 and mvn; HUDI_BUNDLE_JAR names a jar that is there already.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
env_dir="$root/var/hudi-env"
version="1.2.0"
name="hudi-spark3.5-bundle_2.12"
jar="${HUDI_BUNDLE_JAR:-$env_dir/$name-$version.jar}"

if [ ! -x "$env_dir/bin/spark-submit" ]; then
    mkdir -p "$(dirname "$env_dir")"
    python3 -m venv "$env_dir" >&2
    "$env_dir/bin/pip" install --quiet 'pyspark==3.5.*' >&2
fi
if [ ! -f "$jar" ]; then
    artifact="org.apache.hudi:$name:$version"
    mvn -q -B dependency:get -Dtransitive=false -Dartifact="$artifact" >&2
    mvn -q -B dependency:copy -Dartifact="$artifact" -DoutputDirectory="$env_dir" >&2
fi
echo "$jar"
